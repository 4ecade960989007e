import { type AckStatus, ackStatuses } from '../domain/command.ts';
import type { JsonSpan } from '../domain/json/span.ts';
import { compileMessageCheck, count, type MessageSchema } from '../domain/message-schema.ts';
import type { MessageRefusalCode } from '../domain/refusals.ts';
import type { EpochMs, Json, JsonObject, Uuid } from '../domain/values.ts';
import { PROTOCOL_VERSION } from './constants.ts';
import type { CloudMessageType, DeviceChannel } from './topics.ts';

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

const amount = { type: 'number', minimum: 0 } as const;
const time = { ...count, description: 'Epoch milliseconds' };

export const devicePayloads: {
  readonly hello: MessageSchema<HelloPayload>;
  readonly heartbeat: MessageSchema<HeartbeatPayload>;
  readonly state: MessageSchema<StatePayload>;
  readonly cmd_ack: MessageSchema<CmdAckPayload>;
} = {
  hello: {
    required: { protocol: { type: 'string', enum: [PROTOCOL_VERSION] } },
    optional: {
      firmware: { type: 'string', description: 'The version that runs', examples: ['1.4.2'] },
      device_type: { type: 'string', examples: ['smart_light'] },
      manifest_version: { ...count, description: 'Of the capability manifest it was built for' },
      uptime_s: amount,
    },
  },
  heartbeat: {
    required: {},
    optional: {
      uptime_s: amount,
      rssi: { type: 'number', description: 'dBm', examples: [-61] },
      battery: { type: 'number', minimum: 0, maximum: 100, description: 'Percent' },
      free_heap: { ...amount, description: 'Bytes' },
    },
  },
  state: {
    required: {
      state: { type: 'object', description: 'A JSON Merge Patch (RFC 7396) of what is known, or the whole state' },
    },
    optional: { full: { type: 'boolean', description: '`state` replaces all that is known' } },
  },
  cmd_ack: {
    required: {
      command_id: { type: 'string', description: 'As `cmd` had it; another text is `UNKNOWN_COMMAND`', format: 'uuid' },
      status: { type: 'string', enum: ackStatuses },
    },
    optional: {
      progress: { type: 'number', description: 'As the device counts it' },
      result: { description: 'Any JSON; kept with the command' },
      error: { type: 'string', description: 'Why it failed, for a person' },
      state: { type: 'object', description: 'Merged as a report, whatever the status' },
    },
  },
};

export const cloudPayloads: {
  readonly cmd: MessageSchema<CmdPayload>;
  readonly hello_ack: MessageSchema<HelloAckPayload>;
  readonly error: MessageSchema<ErrorPayload>;
} = {
  cmd: {
    required: {
      command_id: { type: 'string', format: 'uuid' },
      action: { type: 'string', examples: ['set_brightness'] },
      params: { type: 'object', description: "As the action's `paramSchema` says" },
      issued_at: { ...time, description: 'When it was dispatched, in epoch milliseconds' },
      expires_at: { ...time, description: 'A device does not start it after this; epoch milliseconds' },
    },
    optional: {},
  },
  hello_ack: {
    required: {
      server_time: time,
      last_sequence: { ...count, description: 'The highest number accepted so far; go on from the next' },
      heartbeat_s: { type: 'number', exclusiveMinimum: 0, description: 'Send a heartbeat this often' },
      key_version: count,
      cloud_public_keys: {
        type: 'array',
        items: { type: 'string' },
        description: 'Ed25519, 32 raw bytes in base64url: what signs messages to Ed25519 devices',
      },
    },
    optional: {},
  },
  error: {
    // Any text: a device that is older than a code still has to understand the message.
    required: {
      code: { type: 'string', description: 'Why the message was refused' },
      message_id: { type: 'string', description: 'Of the refused message; empty where it had none to repeat' },
    },
    optional: {},
  },
};

const deviceFaults: Record<DeviceChannel, (payload: JsonObject) => string | null> = {
  hello: compileMessageCheck(devicePayloads.hello),
  heartbeat: compileMessageCheck(devicePayloads.heartbeat),
  state: compileMessageCheck(devicePayloads.state),
  cmd_ack: compileMessageCheck(devicePayloads.cmd_ack),
};
const cloudFaults: Record<CloudMessageType, (payload: JsonObject) => string | null> = {
  cmd: compileMessageCheck(cloudPayloads.cmd),
  hello_ack: compileMessageCheck(cloudPayloads.hello_ack),
  error: compileMessageCheck(cloudPayloads.error),
};

export type PayloadResult<T> = { ok: true; value: T } | { ok: false; reason: string };

/** Checks a device's payload: unknown fields are left alone, a missing or mistyped one refuses it (`PAYLOAD_INVALID`). */
export function readDevicePayload(channel: DeviceChannel, payload: JsonObject): PayloadResult<DevicePayload> {
  const fault = deviceFaults[channel](payload);
  // The shape was checked field by field: this is the one place that turns JSON into the channel's type.
  return fault === null
    ? { ok: true, value: { channel, payload } as unknown as DevicePayload }
    : { ok: false, reason: fault };
}

/**
 * Where the state stands in the RFC 8785 form of its payload, of which `state` is the last member then; undefined where the payload
 * has other members than the two known ones.
 */
export function stateSpan(payload: StatePayload, canonical: Uint8Array): JsonSpan | undefined {
  const { full } = payload;
  let members = full === undefined ? 1 : 2;
  for (const _ in payload) members -= 1;
  if (members !== 0) return undefined;
  const head = full === undefined ? '{"state":' : full ? '{"full":true,"state":' : '{"full":false,"state":';
  return { bytes: canonical, from: head.length, to: canonical.length - 1 };
}

/** The same for what the cloud sends on `cmd`. */
export function readCloudPayload(type: CloudMessageType, payload: JsonObject): PayloadResult<CloudPayload> {
  const fault = cloudFaults[type](payload);
  return fault === null
    ? { ok: true, value: { type, payload } as unknown as CloudPayload }
    : { ok: false, reason: fault };
}
