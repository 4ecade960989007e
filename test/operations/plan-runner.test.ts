import { expect, it } from 'vitest';
import { Quarantined } from '../../src/actors/contract.ts';
import type { Services } from '../../src/operations/operation.ts';
import { planResolver } from '../../src/operations/plan-runner.ts';

it('lets what a quarantined plan asks for wait until it is released, and does not drop it', async () => {
  const actors = {
    read: async () => ({ snapshot: { context: { steps: [] } } }),
    inspect: () => ({ live: true, mailbox: 0, quarantine: 'what is stored does not fit' }),
  };
  const resolve = planResolver({ actors } as unknown as Services);
  const asked = resolve({ type: 'plan.ask', planId: 'p', stepId: 'a', commandId: 'c' });
  await expect(asked).rejects.toThrow(new Quarantined('what is stored does not fit'));
});
