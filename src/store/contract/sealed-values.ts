import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';

/** The stored values that are sealed with the master key. Cached values expire and are not among them. */
export const sealedKinds = ['device_secrets', 'stored_answers', 'command_parameters'] as const;
export type SealedKind = (typeof sealedKinds)[number];

/** Place of a device key in the order of `deviceSecrets`. */
export interface DeviceKeyPosition {
  deviceId: Uuid;
  keyVersion: number;
}

export interface SealedSecret extends DeviceKeyPosition {
  /** Null: a key without a secret. */
  sealed: string | null;
  /** When the key ends or has ended; null for a current key. */
  expiresAt: EpochMs | null;
}

export interface StoredAnswer extends Pick<IdempotencyRow, 'principal' | 'method' | 'path' | 'key' | 'expiresAt'> {
  /** Place in the order of `answers`. */
  digest: string;
  /** Null: the answer was dropped. */
  sealed: string | null;
}

/** Limits of a page. It ends before the row with which it would exceed one of them, and has at least one row. */
export interface PageLimits {
  rows: number;
  /** Of the sealed values. */
  bytes: number;
}

/** Replaces a value only if it is still `from`. */
export interface ResealedValue {
  from: string;
  to: string;
}

/** The number of values that name a master key. */
export interface SealedCount {
  kind: SealedKind;
  keyId: string;
  rows: number;
}

/** The number of sealed values that begin with `prefix`: their form and the id of their master key, `s2.<id>`. */
export interface SealedPrefix {
  prefix: string;
  rows: number;
}

/** The sealed values of all tenants, for a change of the master key. */
export interface SealedValueStore {
  /** Number of device keys and stored answers. */
  count(): Promise<number>;
  /** Up to `limit` device keys after `after`, also ended ones and those without a secret. */
  deviceSecrets(after: DeviceKeyPosition | null, limit: number): Promise<SealedSecret[]>;
  /** Stored answers after the digest `after`, also expired ones; empty if there are no others. */
  answers(after: string | null, limits: PageLimits): Promise<StoredAnswer[]>;
  /** Returns how many it replaced; a row that another transaction changes is left as it is. */
  replaceSecrets(changes: readonly (DeviceKeyPosition & ResealedValue)[]): Promise<number>;
  replaceAnswers(changes: readonly (Pick<StoredAnswer, 'digest'> & ResealedValue)[]): Promise<number>;
  /** `writeOnly` parameters of waiting commands and of steps of plans. They are never replaced, only dropped. */
  parameters(): Promise<SealedPrefix[]>;
  /**
   * The values that name a master key other than `known`: of the device keys that have not ended at `now`, of the
   * answers that expire first and last among those that have not expired, and of the `writeOnly` parameters of waiting
   * commands and plans. Empty on a database without these tables.
   */
  withOtherKeys(known: readonly string[], now: EpochMs): Promise<SealedCount[]>;
}
