import type { CommandStatus } from '../../../src/domain/command.ts';

const final: ReadonlySet<unknown> = new Set<CommandStatus>([
  'rejected',
  'succeeded',
  'failed',
  'timed_out',
  'expired',
  'cancelled',
]);

/** Whether a command that stands there is over. */
export const isFinal = (status: unknown): boolean => final.has(status);
