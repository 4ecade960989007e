import type { EpochMs, Uuid } from '../../domain/values.ts';

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
  /** The device whose secret the answer holds, for `dropFor`. */
  deviceId: Uuid | null;
  expiresAt: EpochMs;
}
