import type { ActorRow } from '../support/memory-store/database.ts';
import { REFUSED_STATE } from './workload/device.ts';
import { REFUSED_PLAN } from './workload/parts.ts';

const CHECK_VIOLATION = '23514';

/** The check constraint of a run: a device state and a plan name that the database refuses. */
export function isRefusedRow({ ref, context }: Pick<ActorRow, 'ref' | 'context'>): boolean {
  if (ref.kind === 'plan') return context.name === REFUSED_PLAN;
  const { refused } = (context.state ?? {}) as { refused?: unknown };
  return ref.kind === 'device' && refused === REFUSED_STATE.refused;
}

/** Whether an error was logged because of that constraint. */
export function isOfRefusedData(fields: object): boolean {
  if ('sqlState' in fields) return fields.sqlState === CHECK_VIOLATION;
  return 'err' in fields && hasCause(fields.err);
}

function hasCause(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ('sqlState' in error && error.sqlState === CHECK_VIOLATION) || hasCause(error.cause);
}
