import type { EpochMs } from '../../domain/values.ts';

/** An answer kept for an `Idempotency-Key` (contract §2); the body is sealed. */
export interface IdempotencyRow {
  principal: string;
  method: string;
  path: string;
  key: string;
  /** SHA-256 of the JCS form of the request's body, hex. */
  bodyHash: string;
  state: 'running' | 'done';
  status: number;
  /** Sealed answer; while `running`, the ids that the effects will have. */
  answer: string;
  /** Whose secret the answer holds, for `dropFor`: a device's id, or a `keySubject`. */
  subject: string | null;
  expiresAt: EpochMs;
  /** Only on a write: `answer` of the row that the request found under its key. Without it there was none. */
  replaces?: string;
}

/**
 * Wherever a row is written, with an effect or alone, it replaces the row that its request found and no other: where
 * another attempt has written one since, the whole write is refused with `IdempotencyConflict`.
 */
export interface IdempotencyStore {
  /** Also answers an expired row that was not pruned yet. */
  find(row: Pick<IdempotencyRow, 'principal' | 'method' | 'path' | 'key'>): Promise<IdempotencyRow | null>;
  put(row: IdempotencyRow): Promise<void>;
  /** Stored answers may hold a secret: drop them at rotation and revocation. */
  dropFor(subject: string): Promise<void>;
}
