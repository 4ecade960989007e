/** How long callers and devices wait for a store that does not answer. */
export const CALLER_TIMEOUT_MS = 2_000;
export const DEVICE_TIMEOUT_MS = 10_000;

/** The store did not apply the operation; it can be retried. */
export class StoreUnavailable extends Error {
  override name = 'StoreUnavailable';
}

/** The connection was lost during COMMIT: the batch may or may not have been committed. */
export class CommitUnknown extends Error {
  override name = 'CommitUnknown';
  /** Resolves when a commit that is still in flight has ended; null if no attempt is left. Never rejects. */
  readonly ended: Promise<void> | null;
  constructor(message: string, { ended = null, ...options }: ErrorOptions & { ended?: Promise<void> | null } = {}) {
    super(message, options);
    this.ended = ended;
  }
}

/** The database rejected the data (SQLSTATE class 21, 22, 23 or 54); nothing of the batch was stored. */
export class DataRefused extends Error {
  override name = 'DataRefused';
  readonly sqlState: string;
  constructor(sqlState: string, message: string) {
    super(message);
    this.sqlState = sqlState;
  }
}

/**
 * The `Idempotency-Key` of a write has a row that did not exist when the request began: another attempt wrote it.
 * Nothing of the batch was stored; return the stored response.
 */
export class IdempotencyConflict extends DataRefused {
  override name = 'IdempotencyConflict';
}
