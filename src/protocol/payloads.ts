import { type AckStatus, ackStatuses } from '../domain/command.ts';
import type { JsonSpan } from '../domain/json/span.ts';
import { compileMessageCheck, countSchema, type MessageSchema } from '../domain/message-schema.ts';
import type { MessageRefusalCode } from '../domain/refusals.ts';
import type { EpochMs, Json, JsonObject, Uuid } from '../domain/values.ts';
import { PROTOCOL_VERSION } from './constants.ts';
import type { CloudMessageType, DeviceChannel } from './topics.ts';

// Payloads of messages, with the wire's field names (contract §4, "Payloads").

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
  /** A JSON Merge Patch, or the complete state if `full`. */
  state: JsonObject;
  full?: boolean;
}

export interface CmdAckPayload {
  /** Any text. An id without a command is refused with `UNKNOWN_COMMAND`, even if it is not a UUID. */
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
  /** A device does not start the command after this time. */
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
  /** Id of the refused message; empty if it had none that could be echoed. */
  message_id: string;
}

/** A device's checked payload, by channel. */
export type DevicePayload =
  | { channel: 'hello'; payload: HelloPayload }
  | { channel: 'heartbeat'; payload: HeartbeatPayload }
  | { channel: 'state'; payload: StatePayload }
  | { channel: 'cmd_ack'; payload: CmdAckPayload };

/** A checked payload of a message on `cmd`. */
export type CloudPayload =
  | { type: 'cmd'; payload: CmdPayload }
  | { type: 'hello_ack'; payload: HelloAckPayload }
  | { type: 'error'; payload: ErrorPayload };

/** Characters that are kept of the texts of devices (`toPrintable`). */
export const MAX_FIRMWARE_LENGTH = 128;
export const MAX_DEVICE_TYPE_LENGTH = 64;
export const MAX_ERROR_LENGTH = 1_000;

const amount = { type: 'number', minimum: 0 } as const;
const time = { ...countSchema, description: 'Epoch milliseconds' };

export const devicePayloads: {
  readonly hello: MessageSchema<HelloPayload>;
  readonly heartbeat: MessageSchema<HeartbeatPayload>;
  readonly state: MessageSchema<StatePayload>;
  readonly cmd_ack: MessageSchema<CmdAckPayload>;
} = {
  hello: {
    required: { protocol: { type: 'string', enum: [PROTOCOL_VERSION] } },
    optional: {
      firmware: {
        type: 'string',
        description: `The running firmware version. ${MAX_FIRMWARE_LENGTH} characters are kept, and unprintable ones become spaces.`,
        examples: ['1.4.2'],
      },
      device_type: {
        type: 'string',
        description: `The type that it was built as; shown, and compared with the registered one. ${MAX_DEVICE_TYPE_LENGTH} characters are kept.`,
        examples: ['smart_light'],
      },
      manifest_version: {
        ...countSchema,
        description: 'Version of the capability manifest it was built for; shown, and compared with the current one',
      },
      uptime_s: { ...amount, description: 'Seconds since it started' },
    },
  },
  heartbeat: {
    required: {},
    optional: {
      uptime_s: { ...amount, description: 'Seconds since it started' },
      rssi: { type: 'number', description: 'dBm', examples: [-61] },
      battery: { type: 'number', minimum: 0, maximum: 100, description: 'Percent' },
      free_heap: { ...amount, description: 'Bytes' },
    },
  },
  state: {
    required: {
      state: { type: 'object', description: 'A JSON Merge Patch (RFC 7396) of the known state, or the complete state' },
    },
    optional: { full: { type: 'boolean', description: '`state` replaces the known state' } },
  },
  cmd_ack: {
    required: {
      command_id: {
        type: 'string',
        description: 'From the `cmd` message; an unknown id is refused with `UNKNOWN_COMMAND`',
        format: 'uuid',
      },
      status: { type: 'string', enum: ackStatuses },
    },
    optional: {
      progress: { type: 'number', description: 'Progress, in a unit that the device chooses' },
      result: { description: 'Any JSON; stored with the command' },
      error: {
        type: 'string',
        description: `Human-readable reason for a failure. ${MAX_ERROR_LENGTH} characters are kept, and unprintable ones become spaces.`,
      },
      state: { type: 'object', description: 'Merged like a state report, regardless of the status' },
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
      params: { type: 'object', description: "Valid by the action's `paramSchema`" },
      issued_at: { ...time, description: 'Time of dispatch, epoch milliseconds' },
      expires_at: { ...time, description: 'A device does not start the command after this time; epoch milliseconds' },
    },
    optional: {},
  },
  hello_ack: {
    required: {
      server_time: time,
      last_sequence: {
        ...countSchema,
        description: 'The highest sequence number accepted so far; continue with the next',
      },
      heartbeat_s: { type: 'number', exclusiveMinimum: 0, description: 'Heartbeat interval in seconds' },
      key_version: countSchema,
      cloud_public_keys: {
        type: 'array',
        items: { type: 'string' },
        description: 'Ed25519 public keys, 32 raw bytes in base64url; they verify messages to Ed25519 devices',
      },
    },
    optional: {},
  },
  error: {
    // The code is any text: a device must also understand messages with codes newer than its firmware.
    required: {
      code: { type: 'string', description: 'Why the message was refused' },
      message_id: {
        type: 'string',
        description: 'Id of the refused message; empty if it had none that could be echoed',
      },
    },
    optional: {},
  },
};

const deviceErrors: Record<DeviceChannel, (payload: JsonObject) => string | null> = {
  hello: compileMessageCheck(devicePayloads.hello),
  heartbeat: compileMessageCheck(devicePayloads.heartbeat),
  state: compileMessageCheck(devicePayloads.state),
  cmd_ack: compileMessageCheck(devicePayloads.cmd_ack),
};
const cloudErrors: Record<CloudMessageType, (payload: JsonObject) => string | null> = {
  cmd: compileMessageCheck(cloudPayloads.cmd),
  hello_ack: compileMessageCheck(cloudPayloads.hello_ack),
  error: compileMessageCheck(cloudPayloads.error),
};

export type PayloadResult<T> = { ok: true; value: T } | { ok: false; reason: string };

/** Checks a device's payload: unknown fields are ignored, a missing or mistyped field is `PAYLOAD_INVALID`. */
export function readDevicePayload(channel: DeviceChannel, payload: JsonObject): PayloadResult<DevicePayload> {
  const error = deviceErrors[channel](payload);
  // The fields were checked above: this is the only cast from JSON to the channel's type.
  return error === null
    ? { ok: true, value: { channel, payload } as unknown as DevicePayload }
    : { ok: false, reason: error };
}

/**
 * Position of the state in the RFC 8785 form of its payload, where `state` sorts last. Undefined if the payload has
 * members other than `full` and `state`.
 */
export function stateSpan(payload: StatePayload, canonical: Uint8Array): JsonSpan | undefined {
  const { full } = payload;
  let members = full === undefined ? 1 : 2;
  for (const _ in payload) members -= 1;
  if (members !== 0) return undefined;
  const head = full === undefined ? '{"state":' : full ? '{"full":true,"state":' : '{"full":false,"state":';
  return { bytes: canonical, from: head.length, to: canonical.length - 1 };
}

/** Checks the payload of a message on `cmd`. */
export function readCloudPayload(type: CloudMessageType, payload: JsonObject): PayloadResult<CloudPayload> {
  const error = cloudErrors[type](payload);
  return error === null
    ? { ok: true, value: { type, payload } as unknown as CloudPayload }
    : { ok: false, reason: error };
}
