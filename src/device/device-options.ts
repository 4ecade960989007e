import type { Clock } from '../domain/clock.ts';
import type { SigningAlg } from '../domain/device-key.ts';
import type { JsonObject, Milliseconds, Uuid } from '../domain/values.ts';
import type { CmdAckPayload, CmdPayload, ErrorPayload, HeartbeatPayload } from '../protocol/payloads.ts';
import type { CommandHandler } from './command-runner.ts';
import type { Backoff, TlsOptions } from './link.ts';
import type { DeviceMemoryStore, WaitingMessage } from './store.ts';

/** The fields of the registration response (`signing_alg`, `key_version`, …), and the behaviour of the device. */
export interface DeviceOptions {
  mqttUrl: string;
  tenantId: Uuid;
  deviceId: Uuid;
  /** `device_secret`, or the seed of the device's Ed25519 key. */
  secret: string;
  /** Default `hmac-sha256`. */
  signingAlg?: SigningAlg;
  /** Default 1. */
  keyVersion?: number;
  /** Public keys with which an Ed25519 device verifies commands. The service announces changes at every sign-in. */
  cloudPublicKeys?: readonly string[];
  /** The first sequence number to use; default 1. */
  initialSequence?: number;
  /** The initial state, reported in full. Default: the state in `store`, or an empty one; neither is reported. */
  state?: JsonObject;
  /** Handlers by action. A command with any other action fails. */
  commands?: Readonly<Record<string, CommandHandler>>;
  /** Firmware version for `hello`. A function is called at every sign-in, so that an update changes the version. */
  firmware?: string | (() => string);
  deviceType?: string;
  manifestVersion?: number;
  /** Additional fields for each heartbeat; `uptime_s` is always included. */
  heartbeat?: () => HeartbeatPayload;
  /** Persists sequence number, state, commands and unacknowledged messages. Default: they are lost with the process. */
  store?: DeviceMemoryStore;
  /** Queued messages. When full, unsent state reports are merged into one, then the oldest are dropped. Default 256. */
  queueLimit?: number;
  clock?: Clock;
  backoff?: Partial<Backoff>;
  tls?: TlsOptions;
  /** MQTT keep-alive in seconds; default 30. */
  keepaliveS?: number;
  /** Timeout for connecting, and then for the answer to `hello`; default 15 s. */
  patienceMs?: Milliseconds;
}

export interface DeviceEvents {
  /** Signed in, and `hello` was answered. Queued messages are being sent. */
  online: [session: { clientId: string; lastSequence: number }];
  /** A connection attempt failed, or the connection was lost. The next attempt follows after `retryInMs`. */
  offline: [reason: string, retryInMs: Milliseconds];
  command: [command: CmdPayload];
  /** An acknowledgement of a command was queued. */
  acknowledged: [ack: CmdAckPayload];
  /** The local state was changed by a report or a command. */
  state: [state: JsonObject];
  /** The service refused a message of this device. */
  refused: [refusal: ErrorPayload];
  /** A message on `cmd` was ignored: it failed verification, was malformed or was replayed. */
  suspect: [reason: string];
  /** A message was dropped because the queue is full. */
  dropped: [message: WaitingMessage];
  /** `store` or `heartbeat` failed. */
  fault: [error: unknown];
  closed: [];
}
