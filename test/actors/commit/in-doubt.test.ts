import { expect, it } from 'vitest';
import { InDoubtCommits } from '../../../src/actors/commit/in-doubt.ts';
import { unlimitedLease } from '../../../src/domain/lease.ts';
import { type ActorStore, CommitUnknown } from '../../../src/store/contract.ts';

it('does not commit again after it was stopped, even during a pause between attempts', async () => {
  let commits = 0;
  const store = {
    commit: () => {
      commits += 1;
      return Promise.reject(new CommitUnknown('the connection was lost'));
    },
  } as unknown as ActorStore;
  const keeper = new InDoubtCommits(store, unlimitedLease, 10_000);
  // Stops after the outcome of the first attempt was checked, during the pause before the next attempt.
  const stopInThePause = () => queueMicrotask(() => keeper.stop());
  await expect(keeper.commitBatch({ actors: [], delivered: [] }, stopInThePause)).rejects.toBeInstanceOf(CommitUnknown);
  expect(commits).toBe(1);
});
