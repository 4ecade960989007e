import type { AckStatus } from './command.ts';
import { isObject } from './json-size.ts';
import { PROTOCOL_VERSION } from './protocol.ts';
import type { MessageRefusalCode } from './refusals.ts';
import type { CloudMessageType, DeviceChannel } from './topics.ts';
import type { EpochMs, Json, JsonObject, Uuid } from './values.ts';

// Field names are the wire's (contract §4, "Payloads").

export interface HelloPayload {
  protocol: typeof PROTOCOL_VERSION;
  firmware?: string;
  device_type?: string;
  manifest_version?: number;
  uptime_s?: number;
}

export interface HeartbeatPayload {
  uptime_s?: number;
  rssi?: number;
  /** Percent. */
  battery?: number;
  free_heap?: number;
}

export interface StatePayload {
  /** A JSON Merge Patch, or the whole state when `full`. */
  state: JsonObject;
  full?: boolean;
}

export interface CmdAckPayload {
  /** Any text: one that names no command is `UNKNOWN_COMMAND`, even where it is no UUID. */
  command_id: string;
  status: AckStatus;
  progress?: number;
  result?: Json;
  error?: string;
  state?: JsonObject;
}

export interface CmdPayload {
  command_id: Uuid;
  action: string;
  params: JsonObject;
  issued_at: EpochMs;
  /** A device does not start the command after this. */
  expires_at: EpochMs;
}

export interface HelloAckPayload {
  server_time: EpochMs;
  /** The highest sequence number the service has accepted; 0 when none. */
  last_sequence: number;
  heartbeat_s: number;
  key_version: number;
  cloud_public_keys: string[];
}

export interface ErrorPayload {
  code: MessageRefusalCode;
  /** Of the refused message; empty where it had none that could be repeated. */
  message_id: string;
}

/** A device's payload after its own fields were checked, by channel. */
export type DevicePayload =
  | { channel: 'hello'; payload: HelloPayload }
  | { channel: 'heartbeat'; payload: HeartbeatPayload }
  | { channel: 'state'; payload: StatePayload }
  | { channel: 'cmd_ack'; payload: CmdAckPayload };

/** What came on `cmd`, after its own fields were checked. */
export type CloudPayload =
  | { type: 'cmd'; payload: CmdPayload }
  | { type: 'hello_ack'; payload: HelloAckPayload }
  | { type: 'error'; payload: ErrorPayload };

type Check = (value: Json) => boolean;
interface Shape {
  required: Record<string, Check>;
  optional: Record<string, Check>;
}

const isText: Check = (value) => typeof value === 'string';
const isNumber: Check = (value) => typeof value === 'number';
const isAmount: Check = (value) => typeof value === 'number' && value >= 0;
const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isBoolean: Check = (value) => typeof value === 'boolean';
const isAny: Check = () => true;
const isOneOf =
  (...allowed: string[]): Check =>
  (value) =>
    allowed.includes(value as string);

const deviceShapes: Record<DeviceChannel, Shape> = {
  hello: {
    required: { protocol: isOneOf(PROTOCOL_VERSION) },
    optional: { firmware: isText, device_type: isText, manifest_version: isCount, uptime_s: isAmount },
  },
  heartbeat: {
    required: {},
    optional: {
      uptime_s: isAmount,
      rssi: isNumber,
      battery: (value) => typeof value === 'number' && value >= 0 && value <= 100,
      free_heap: isAmount,
    },
  },
  state: { required: { state: isObject }, optional: { full: isBoolean } },
  cmd_ack: {
    required: { command_id: isText, status: isOneOf('accepted', 'in_progress', 'succeeded', 'failed') },
    optional: { progress: isNumber, result: isAny, error: isText, state: isObject },
  },
};

const cloudShapes: Record<CloudMessageType, Shape> = {
  cmd: {
    required: { command_id: isText, action: isText, params: isObject, issued_at: isCount, expires_at: isCount },
    optional: {},
  },
  hello_ack: {
    required: {
      server_time: isCount,
      last_sequence: isCount,
      heartbeat_s: (value) => typeof value === 'number' && value > 0,
      key_version: isCount,
      cloud_public_keys: (value) => Array.isArray(value) && value.every(isText),
    },
    optional: {},
  },
  error: { required: { code: isText, message_id: isText }, optional: {} },
};

export type PayloadReading<T> = { ok: true; value: T } | { ok: false; reason: string };

/** Checks a device's payload: unknown fields are left alone, a missing or mistyped one refuses it (`PAYLOAD_INVALID`). */
export function readDevicePayload(channel: DeviceChannel, payload: JsonObject): PayloadReading<DevicePayload> {
  const fault = faultOf(deviceShapes[channel], payload);
  // The shape was checked field by field: this is the one place that turns JSON into the channel's type.
  return fault === null
    ? { ok: true, value: { channel, payload } as unknown as DevicePayload }
    : { ok: false, reason: fault };
}

/** The same for what the cloud sends on `cmd`. */
export function readCloudPayload(type: CloudMessageType, payload: JsonObject): PayloadReading<CloudPayload> {
  const fault = faultOf(cloudShapes[type], payload);
  return fault === null
    ? { ok: true, value: { type, payload } as unknown as CloudPayload }
    : { ok: false, reason: fault };
}

function faultOf(shape: Shape, payload: JsonObject): string | null {
  for (const name in shape.required) {
    if (!Object.hasOwn(payload, name)) return `${name} is missing`;
    if (!shape.required[name]?.(payload[name] as Json)) return `${name} is not valid`;
  }
  for (const name in shape.optional) {
    if (Object.hasOwn(payload, name) && !shape.optional[name]?.(payload[name] as Json)) return `${name} is not valid`;
  }
  return null;
}
