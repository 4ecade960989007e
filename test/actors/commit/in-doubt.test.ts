import { expect, it } from 'vitest';
import { InDoubtCommits } from '../../../src/actors/commit/in-doubt.ts';
import { Deadlines } from '../../../src/actors/deadlines.ts';
import { DEFAULT_RUNTIME_LIMITS } from '../../../src/actors/runtime-limits.ts';
import { unlimitedLease } from '../../../src/domain/lease.ts';
import { type ActorStore, CommitUnknown } from '../../../src/store/contract.ts';
import { testClock } from '../../support/clock.ts';

it('does not commit again after it was stopped, even during a pause between attempts', async () => {
  let commits = 0;
  const store = {
    commit: () => {
      commits += 1;
      return Promise.reject(new CommitUnknown('the connection was lost'));
    },
  } as unknown as ActorStore;
  const deadlines = new Deadlines(testClock(), DEFAULT_RUNTIME_LIMITS);
  const inDoubt = new InDoubtCommits(store, unlimitedLease, deadlines);
  // Stops after the outcome of the first attempt was checked, during the pause before the next attempt.
  const stopInThePause = () => queueMicrotask(() => inDoubt.stop());
  await expect(inDoubt.commitBatch([], {}, stopInThePause)).rejects.toBeInstanceOf(CommitUnknown);
  expect(commits).toBe(1);
});
