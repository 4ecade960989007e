import {
  type CommandStatus,
  commandPhaseOf,
  commandStatuses,
  isFinalCommandStatus,
  mayActOrHaveActed,
} from '../../domain/command.ts';

// Lists of command statuses as SQL, for `status in …`.

const listOf = (includes: (status: CommandStatus) => boolean): string =>
  `(${commandStatuses
    .filter(includes)
    .map((status) => `'${status}'`)
    .join(', ')})`;

/** A command that is not final. */
export const openStatuses = listOf((status) => !isFinalCommandStatus(status));
export const finalStatuses = listOf(isFinalCommandStatus);
/** A command that was dispatched and is not final. */
export const executingStatuses = listOf((status) => commandPhaseOf(status) === 'executing');
/** A command that the device may have executed, or may still execute. */
export const actedStatuses = listOf(mayActOrHaveActed);
/** A command that was sent and did not succeed. */
export const failedStatuses = listOf((status) => commandPhaseOf(status) === 'failed');
