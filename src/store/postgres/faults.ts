import { DatabaseError } from 'pg';
import { CommitUnknown, DataRefused, IdempotencyConflict, StoreUnavailable } from '../contract.ts';

/*
 * From what a driver throws to what the rest of the service reacts to. An error message of the server says which
 * constraint was hurt; its `detail`, which quotes values, is left behind.
 */

/**
 * 21: two rows of one statement meant the same row; 22, 23: the data; 54: a value larger than the server can keep or
 * index. Sent again, the same data is refused again.
 */
const refusedClasses = new Set(['21', '22', '23', '54']);
/** The session ended with this: 57P01–57P05 (shut down, killed, starting up, idle), 08 (connection). */
const endsSession = (error: DatabaseError): boolean =>
  error.severity === 'FATAL' ||
  error.severity === 'PANIC' ||
  error.code?.startsWith('57P') === true ||
  error.code?.startsWith('08') === true;
/** Deadlock and serialisation, resources, waiting too long, operator, system, and a server that turned read-only. */
const transientCodes = /^(40|53|55|57|58|25006|XX)/;

/** Message of `refuse` for a stored answer that another attempt would replace; mapped to `IdempotencyConflict`. */
export const IDEMPOTENCY_CONFLICT = 'the idempotency key has another answer';

/** True when the connection is of no more use. */
export const isConnectionLost = (error: unknown): boolean => !(error instanceof DatabaseError) || endsSession(error);

/**
 * The fault for an error that came back after a statement had been sent. A write whose session ended may have been
 * committed a moment before, so it is `CommitUnknown`; a read can simply be asked again.
 */
export function faultOf(error: unknown, writing: boolean): Error {
  if (error instanceof DatabaseError && !endsSession(error)) {
    const { code = 'XX000', message } = error;
    if (message === IDEMPOTENCY_CONFLICT) return new IdempotencyConflict(code, message);
    if (refusedClasses.has(code.slice(0, 2))) return new DataRefused(code, message);
    if (transientCodes.test(code)) return new StoreUnavailable(`${message} (${code})`, { cause: error });
    return error;
  }
  const message = error instanceof Error ? error.message : String(error);
  return writing ? new CommitUnknown(message, { cause: error }) : new StoreUnavailable(message, { cause: error });
}

/** The fault for an error before anything was sent. */
export const unavailable = (error: unknown): StoreUnavailable =>
  new StoreUnavailable(error instanceof Error ? error.message : String(error), { cause: error });
