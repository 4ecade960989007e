import { describe, expect, it } from 'vitest';
import { commandPhaseOf, commandStatuses, isFinalCommandStatus, mayHaveActed } from '../../src/domain/command.ts';

describe('the statuses of a command', () => {
  it('are final as in the contract', () => {
    expect(commandStatuses.filter(isFinalCommandStatus)).toEqual([
      ...['rejected', 'succeeded', 'failed', 'timed_out', 'expired', 'cancelled'],
    ]);
  });

  it('are in the phase of what has happened to the command', () => {
    expect(Object.groupBy(commandStatuses, commandPhaseOf)).toEqual({
      deciding: ['submitted'],
      confirming: ['awaiting_confirmation'],
      executing: ['dispatched', 'acknowledged', 'in_progress'],
      succeeded: ['succeeded'],
      failed: ['failed', 'timed_out'],
      not_sent: ['rejected', 'expired', 'cancelled'],
    });
  });

  it('show whether the device may have acted', () => {
    expect(commandStatuses.filter(mayHaveActed)).toEqual(['succeeded', 'timed_out']);
  });
});
