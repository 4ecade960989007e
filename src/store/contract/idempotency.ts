import type { EpochMs } from '../../domain/values.ts';

/** Instead of a response whose secret is no longer valid. */
export const DROPPED_ANSWER = '';

/**
 * Instead of the hash of a body, which is encrypted with the response: a short value in the body, such as a PIN, could be
 * found by hashing all of them.
 */
export const SEALED_HASH = 'sealed';

/** A stored response for an `Idempotency-Key` (contract §2); the body is encrypted. */
export interface IdempotencyRow {
  principal: string;
  method: string;
  path: string;
  key: string;
  /** `SEALED_HASH`; in rows of earlier builds the SHA-256, hex, of the JCS form of the request body. */
  bodyHash: string;
  state: 'running' | 'done';
  status: number;
  /** Encrypted response, or `DROPPED_ANSWER`; while `running`, the ids that the request will create. */
  answer: string;
  /** Owner of a secret in the response, for `dropFor`: a device id, or a `keySubject`. */
  subject: string | null;
  expiresAt: EpochMs;
  /** Only on a write: `answer` of the row that the request found under its key; absent if there was none. */
  replaces?: string;
}

/**
 * Every write of a row, with an effect or alone, replaces only the row that its request found. If another attempt has
 * written one since, the whole write is rejected with `IdempotencyConflict`.
 */
export interface IdempotencyStore {
  /** Also returns an expired row that was not pruned yet. */
  find(row: Pick<IdempotencyRow, 'principal' | 'method' | 'path' | 'key'>): Promise<IdempotencyRow | null>;
  put(row: IdempotencyRow): Promise<void>;
  /**
   * Replaces stored responses with a secret of this subject by `DROPPED_ANSWER`, at rotation and revocation. The rows
   * stay: a request that arrives late must not take effect again.
   */
  dropFor(subject: string): Promise<void>;
}
