import { DatabaseError } from 'pg';
import { CommitUnknown, DataRefused, IdempotencyConflict, StoreUnavailable } from '../contract.ts';

/*
 * Maps driver errors to the faults that the service reacts to. The server's error message names the violated
 * constraint; its `detail`, which quotes values, is dropped.
 */

/**
 * 21: two rows of one statement affect the same row; 22, 23: invalid data; 54: a value larger than the server can store
 * or index. The same data would be rejected again.
 */
const refusedClasses = new Set(['21', '22', '23', '54']);
/** Errors that end the session: 57P01–57P05 (shut down, killed, starting up, idle), 08 (connection). */
const endsSession = (error: DatabaseError): boolean =>
  error.severity === 'FATAL' ||
  error.severity === 'PANIC' ||
  error.code?.startsWith('57P') === true ||
  error.code?.startsWith('08') === true;
/** Deadlock and serialisation, resources, lock timeout, operator, system, and a server that became read-only. */
const transientCodes = /^(40|53|55|57|58|25006|XX)/;

/** Message of `refuse` for a stored response that another attempt would replace; mapped to `IdempotencyConflict`. */
export const IDEMPOTENCY_CONFLICT = 'another attempt stored a response for the idempotency key';

/**
 * The role of tenants is missing or lacks a privilege, which an administrator has to change. It had no effect, and is
 * not retried like other failures of the store.
 */
export class TenantRoleRefused extends StoreUnavailable {}

/** SQLSTATE of missing privileges, and of rows that a policy does not permit. */
const INSUFFICIENT_PRIVILEGE = '42501';
/** The server's function that reports missing privileges; its message depends on the server's language. */
const REPORTS_PRIVILEGE = 'aclcheck_error';

/** The fault for an error of a statement of a tenant if its role is the cause; `entered`: the statement ran as the role. */
export function roleFault(error: unknown, entered: boolean): TenantRoleRefused | null {
  if (!(error instanceof DatabaseError) || isConnectionLost(error)) return null;
  const { code = 'XX000', message, routine } = error;
  if (transientCodes.test(code)) return null;
  if (entered && !(code === INSUFFICIENT_PRIVILEGE && routine === REPORTS_PRIVILEGE)) return null;
  return new TenantRoleRefused(`${message} (${code})`, { cause: error });
}

/** 53: no disk space, memory or other resources; 58: errors of the server's system, such as of its disk. */
const resourceCodes = /^5[38]/;

/** True if the server did not run a statement because it lacks a resource, which an administrator has to provide. */
export const lacksResource = (error: unknown): boolean =>
  error instanceof DatabaseError && resourceCodes.test(error.code ?? '');

/** True if the connection cannot be used again. */
export const isConnectionLost = (error: unknown): boolean => !(error instanceof DatabaseError) || endsSession(error);

/**
 * The fault for an error after a statement was sent. A write whose session ended may have been committed just before,
 * so it is `CommitUnknown`; a read can be repeated.
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
