import type { CommandStatus } from '../../../src/domain/command.ts';

const final: ReadonlySet<unknown> = new Set<CommandStatus>([
  'rejected',
  'succeeded',
  'failed',
  'timed_out',
  'expired',
  'cancelled',
]);

/** Whether a command with this status has ended. */
export const isFinal = (status: unknown): boolean => final.has(status);
