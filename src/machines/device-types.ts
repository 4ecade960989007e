import type { JsonSpan } from '../domain/json/span.ts';
import type { Manifest } from '../domain/manifest.ts';
import type { MessageRefusalCode } from '../domain/refusals.ts';
import type { ReplayWindow } from '../domain/replay-window.ts';
import type { EpochMs, JsonObject, Principal, Uuid } from '../domain/values.ts';
import type { CommandAck, DeviceKeyRow } from './outputs.ts';
import type { ReportOrder } from './report-order.ts';

/** Nineteen fields at most: V8 copies an object of more as a slow dictionary, and each message copies this one. */
export interface DeviceContext {
  id: Uuid;
  tenantId: Uuid;
  deviceType: string;
  /** The category of its manifest, or null where it has none. */
  category: string | null;
  name: string | null;
  homeId: Uuid | null;
  roomId: Uuid | null;
  metadata: JsonObject;
  firmware: string | null;
  createdAt: EpochMs;
  signingAlg: 'hmac-sha256' | 'ed25519';
  keyVersion: number;
  /** The previous key while it still verifies. */
  grace: { keyVersion: number; until: EpochMs } | null;
  /** 0 where the device has no manifest. */
  manifestVersion: number;
  manifestOwn: boolean;
  state: JsonObject;
  /** Counts every accepted report; never goes back. */
  stateVersion: number;
  /** When the state was last reported, its size as JSON text, which is counted again on load, and what was said in which order. */
  reported: { at: EpochMs | null; bytes: number; order: ReportOrder | null };
  replay: ReplayWindow;
}

/** A command whose expected state is still waited for; the runtime attaches them to what a device reports. */
export interface VerificationWatch {
  commandId: Uuid;
  expected: JsonObject;
  /** True once the command was told of a state that did not match. */
  seen: boolean;
}

/** The part of a verified envelope that the device actor judges. */
export interface MessageHeader {
  sequenceNumber: number;
  messageId: string;
  /** The version of the key that verified the signature. */
  keyVersion: number;
}

interface Base {
  at: EpochMs;
  by?: Principal;
}

export type DeviceEvent =
  | (Base & {
      type: 'register';
      device: Pick<
        DeviceContext,
        'id' | 'tenantId' | 'deviceType' | 'category' | 'name' | 'homeId' | 'roomId' | 'metadata' | 'signingAlg'
      >;
      key: DeviceKeyRow;
      manifest: Manifest | null;
    })
  | (Base & { type: 'patch'; changes: Partial<Pick<DeviceContext, 'name' | 'homeId' | 'roomId' | 'metadata'>> })
  /** `graceUntil` is `at` + 24 h; a second rotation ends an older grace. */
  | (Base & { type: 'rotate'; key: DeviceKeyRow; graceUntil: EpochMs })
  | (Base & { type: 'revoke'; reason?: string })
  | (Base & { type: 'reinstate'; reason: string; key: DeviceKeyRow })
  | (Base & { type: 'delete' })
  /** A second manifest of one's own gives the output `refused` with `CONFLICT`. */
  | (Base & { type: 'manifest.register'; manifest: Manifest })
  /** `expectedVersion` must be the current one, else `refused` with `CONFLICT`. */
  | (Base & { type: 'manifest.update'; manifest: Manifest; expectedVersion: number })
  /** Three heartbeat intervals of silence, or the end of the session. */
  | (Base & { type: 'presence.lost' })
  | (Base & { type: 'heartbeat.received'; mark: MessageHeader })
  /** Stands outside the replay window; the first message of a session makes the device online. */
  | (Base & { type: 'hello.received'; mark: Pick<MessageHeader, 'keyVersion'>; firmware?: string })
  /** `written` is the JSON text of `state`, in its RFC 8785 form. */
  | (Base & {
      type: 'state.reported';
      mark: MessageHeader;
      state: JsonObject;
      full: boolean;
      written?: JsonSpan | undefined;
      watches: readonly VerificationWatch[];
    })
  /** `known` is false where this device has no such command: UNKNOWN_COMMAND. */
  | (Base & {
      type: 'ack.reported';
      mark: MessageHeader;
      commandId: Uuid;
      known: boolean;
      ack: CommandAck;
      state?: JsonObject;
      watches: readonly VerificationWatch[];
    })
  /** A message whose payload was refused: it uses its sequence number. */
  | (Base & { type: 'message.rejected'; mark: MessageHeader; code: MessageRefusalCode });
