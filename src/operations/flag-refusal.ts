import { refuse } from '../domain/refusals.ts';
import type { Operation, Services } from './operation.ts';

const MAINTENANCE_RETRY_S = 60;

type Refused = ReturnType<typeof refuse>;

/** Refuses an operation that the service's flags stop, or null. `given`: its input, not validated yet, if it is known. */
export function flagRefusal(
  services: Pick<Services, 'flags'>,
  { changes, changesNothing, inMaintenance, stoppedBy }: Operation,
  given?: unknown,
): Refused | null {
  if (!changes && stoppedBy === undefined) return null;
  const flags = services.flags();
  if (flags.maintenance_mode && changes && !inMaintenance && !changesNothing?.(given)) {
    return refuse('MAINTENANCE', 'The service is under maintenance; changes are refused.', {
      retryAfterS: MAINTENANCE_RETRY_S,
    });
  }
  if (stoppedBy === undefined || !flags[stoppedBy]) return null;
  switch (stoppedBy) {
    case 'registration_lock':
      return refuse('REGISTRATION_LOCKED', 'Registration is locked.');
    case 'commands_disabled':
      return refuse('COMMANDS_DISABLED', 'Commands are disabled.');
    case 'cognition_disabled':
      return refuse('COGNITION_DISABLED', 'The cognitive layer is disabled.');
  }
}
