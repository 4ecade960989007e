import type { AppliedChange } from '../domain/change-request.ts';
import type { SigningAlg } from '../domain/device-key.ts';
import type { TagChange } from '../domain/device-tags.ts';
import { type HistoryRule, type KeptValues, NOTHING_KEPT } from '../domain/history/rules.ts';
import type { JsonSpan } from '../domain/json/span.ts';
import type { Manifest } from '../domain/manifest.ts';
import type { MessageRefusalCode } from '../domain/refusals.ts';
import { emptyWindow, type ReplayWindow } from '../domain/replay-window.ts';
import type { Telemetry } from '../domain/telemetry.ts';
import type { EpochMs, JsonObject, Principal, Uuid } from '../domain/values.ts';
import type { CommandAck, DeviceKeyRow } from './outputs.ts';
import type { ReportOrder } from './report-order.ts';

export interface DeviceContext {
  fixed: DeviceFixed;
  live: DeviceLive;
}

/** What administration changes: registration, keys, place, manifest. */
export interface DeviceFixed {
  id: Uuid;
  tenantId: Uuid;
  deviceType: string;
  /** The category of its manifest, or null without one. */
  category: string | null;
  name: string | null;
  homeId: Uuid | null;
  roomId: Uuid | null;
  metadata: JsonObject;
  firmware: string | null;
  createdAt: EpochMs;
  signingAlg: SigningAlg;
  keyVersion: number;
  /** The previous key while it still verifies. */
  grace: { keyVersion: number; until: EpochMs } | null;
  /** 0 without a manifest. */
  manifestVersion: number;
  manifestOwn: boolean;
  /** Of its manifest. Absent if all samples are kept, and in rows of earlier builds. */
  history?: readonly HistoryRule[];
  /** In the order of their characters. Absent until the device has tags, and in rows of earlier builds. */
  tags?: readonly string[];
}

/** What messages change. */
export interface DeviceLive {
  state: JsonObject;
  /** Number of accepted reports; never decreases. */
  stateVersion: number;
  /** Time of the last report, size of the state's JSON text (computed on load), and the order of late reports. */
  reported: { at: EpochMs | null; bytes: number; order: ReportOrder | null };
  replay: ReplayWindow;
  samples: DeviceSamples;
}

/** State from which the device decides which later samples are stored. */
export interface DeviceSamples {
  /** The day of the last stored report by its receipt, as a number since 1970 in UTC, and the bytes stored on it. */
  day: number;
  bytes: number;
  /** A report exceeded the limit of this day: no later one of the day is stored either. */
  isFull: boolean;
  kept: KeptValues;
  /** Telemetry of heartbeats, which cause no commit: stored with the next one. */
  pending: readonly PendingTelemetry[];
}

export type PendingTelemetry = readonly [at: EpochMs, deviceAt: EpochMs, sequence: number, telemetry: JsonObject];

export const NO_SAMPLES: DeviceSamples = { day: 0, bytes: 0, isFull: false, kept: NOTHING_KEPT, pending: [] };

/** The context before the first event. A field that is missing here does not compile. */
export const initialDevice: DeviceContext = {
  fixed: {
    id: '',
    tenantId: '',
    deviceType: '',
    category: null,
    name: null,
    homeId: null,
    roomId: null,
    metadata: {},
    firmware: null,
    createdAt: 0,
    signingAlg: 'hmac-sha256',
    keyVersion: 0,
    grace: null,
    manifestVersion: 0,
    manifestOwn: false,
  },
  live: {
    state: {},
    stateVersion: 0,
    reported: { at: null, bytes: 2, order: null },
    replay: emptyWindow(),
    samples: NO_SAMPLES,
  },
};

/** A command that waits for its expected state; the runtime attaches the watches to a device's reports. */
export interface VerificationWatch {
  commandId: Uuid;
  expected: JsonObject;
  /** True once the command received a state that did not match. */
  seen: boolean;
}

/** The fields of a verified envelope that the device actor checks. */
export interface MessageHeader {
  /** Null for a message without one, over a channel that a certificate authenticates: it gets the next number. */
  sequenceNumber: number | null;
  messageId: string;
  /** The time that the device signed. Absent for a message without one, whose time is that of its receipt. */
  deviceAt?: EpochMs;
  /** The version of the key that verified the signature, or that was current at the sign-in with a certificate. */
  keyVersion: number;
  /** Bytes of reports that a device may store for its history a day. Absent: any number. */
  historyBytes?: number;
}

/** A manifest that was compared with the current one. */
interface NewManifest {
  manifest: Manifest;
  /** The version that it was compared with; 0 without one. Refused with `CONFLICT` unless it is the current version. */
  expectedVersion: number;
  /** The confirmed change request, if the manifest is weaker than the current one. */
  change?: AppliedChange;
}

/** A report of the time before the registration. */
export interface ImportedReport {
  deviceAt: EpochMs;
  state: JsonObject;
}

interface Confirmed {
  /** The confirmed change request, if the policy requires a confirmation. */
  change?: AppliedChange;
}

interface Base {
  at: EpochMs;
  by?: Principal;
}

export type DeviceEvent =
  | (Base & {
      type: 'register';
      device: Pick<
        DeviceFixed,
        | 'id'
        | 'tenantId'
        | 'deviceType'
        | 'category'
        | 'name'
        | 'homeId'
        | 'roomId'
        | 'metadata'
        | 'signingAlg'
        | 'tags'
      >;
      key: DeviceKeyRow;
      manifest: Manifest | null;
    })
  | (Base & {
      type: 'patch';
      changes: Partial<Pick<DeviceFixed, 'name' | 'homeId' | 'roomId' | 'metadata'>>;
      /** Refused with `VALIDATION_FAILED` if the device would have too many tags. */
      tags?: TagChange;
    })
  /** `graceUntil` is `at` + 24 h; a second rotation ends an older grace. */
  | (Base & Confirmed & { type: 'rotate'; key: DeviceKeyRow; graceUntil: EpochMs })
  | (Base & Confirmed & { type: 'revoke'; reason?: string })
  | (Base & Confirmed & { type: 'reinstate'; reason: string; key: DeviceKeyRow })
  | (Base & { type: 'delete' })
  /** Refused with `CONFLICT` if the device already has a tenant manifest. */
  | (Base & { type: 'manifest.register' } & NewManifest)
  | (Base & { type: 'manifest.update' } & NewManifest)
  /** Reports from before the registration, for the history alone: the twin stays as it is. */
  | (Base & { type: 'history.import'; reports: readonly ImportedReport[] })
  /** Three heartbeat intervals without a message, or the end of the session. */
  | (Base & { type: 'presence.lost' })
  | (Base & { type: 'heartbeat.received'; header: MessageHeader; telemetry?: Telemetry; battery?: number })
  /** Not subject to the replay window. The first message of a session makes the device online. */
  | (Base & {
      type: 'hello.received';
      header: Pick<MessageHeader, 'keyVersion' | 'deviceAt' | 'historyBytes'>;
      firmware?: string;
      telemetry?: Telemetry;
      watches?: readonly VerificationWatch[];
    })
  /** `written` is the JSON text of `state`, in its RFC 8785 form. */
  | (Base & {
      type: 'state.reported';
      header: MessageHeader;
      state: JsonObject;
      full: boolean;
      written?: JsonSpan | undefined;
      watches: readonly VerificationWatch[];
    })
  /** `known` is false if this device has no such command: refused with `UNKNOWN_COMMAND`. */
  | (Base & {
      type: 'ack.reported';
      header: MessageHeader;
      commandId: Uuid;
      known: boolean;
      ack: CommandAck;
      state?: JsonObject;
      watches: readonly VerificationWatch[];
    })
  /** A message whose payload was refused; it still uses its sequence number. */
  | (Base & { type: 'message.rejected'; header: MessageHeader; code: MessageRefusalCode });
