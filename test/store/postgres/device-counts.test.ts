import { expect, it } from 'vitest';
import type { ActorCommit } from '../../../src/store/contract.ts';
import { DeviceCounts } from '../../../src/store/postgres/device-counts.ts';
import { deviceCommit, newId, nextCommit } from '../../support/actor-commits.ts';
import { fc } from '../../support/properties.ts';

it('a count is read again when tenants were added to the process, also while it was being read', async () => {
  let generation = 0;
  const counts = new DeviceCounts(() => generation);
  const counted = (n: number) => counts.of('tenant', async () => n);
  expect([await counted(1), await counted(2)]).toEqual([1, 1]);
  generation += 1;
  const during = counts.of('tenant', async () => {
    generation += 1;
    return 3;
  });
  expect(await during).toBe(3);
  expect([await counted(4), await counted(5)]).toEqual([4, 4]);
});

const removal = (commit: ActorCommit): ActorCommit =>
  nextCommit(commit, { columns: { ...commit.columns, deleted: true } });

it('registrations of one tenant read its count once, and those of others do not change it', async () => {
  const counts = new DeviceCounts();
  const tenantId = newId();
  let reads = 0;
  const count = () =>
    counts.of(tenantId, async () => {
      reads += 1;
      return 7;
    });
  expect(await count()).toBe(7);
  const batches = [
    [deviceCommit({ tenantId }), deviceCommit({ tenantId }), deviceCommit()],
    [deviceCommit({ tenantId })],
    [nextCommit(deviceCommit({ tenantId }))],
  ];
  for (const batch of batches) await counts.during(batch, async () => ({ lost: [] }));
  expect([await count(), reads]).toEqual([10, 1]);
});

it('a device that was not stored is not counted; after a removal or an unknown outcome the count is read again', async () => {
  const counts = new DeviceCounts();
  const commit = deviceCommit();
  const counted = (n: number) => counts.of(commit.tenantId, async () => n);
  expect(await counted(1)).toBe(1);
  await counts.during([commit], async () => ({ lost: [commit.ref] }));
  expect(await counted(2)).toBe(1);
  await counts.during([removal(commit)], async () => ({ lost: [] }));
  expect(await counted(3)).toBe(3);
  const unknown = counts.during([commit], () => Promise.reject(new Error('connection lost')));
  await expect(unknown).rejects.toThrow('connection lost');
  expect(await counted(4)).toBe(4);
  expect(counts.sizes()).toEqual({ device_counts: 1, open_device_counts: 0 });
});

/** `lost`: not stored, another writer was first; `refused`: nothing stored; `in doubt`: stored, but the answer is lost. */
type Step = 'count' | 'add' | 'remove' | 'lost' | 'refused' | 'in doubt';

it('a count equals the number of stored devices whenever no commit is open, for any order of statements and answers', async () => {
  const steps = fc.array(fc.constantFrom<Step>('count', 'add', 'add', 'remove', 'lost', 'refused', 'in doubt'), {
    minLength: 1,
    maxLength: 12,
  });
  await fc.assert(
    fc.asyncProperty(steps, fc.scheduler(), async (steps, scheduler) => {
      const counts = new DeviceCounts();
      const tenantId = newId();
      let stored = 10;
      const wire = () => scheduler.schedule(Promise.resolve());
      const read = () =>
        counts.of(tenantId, async () => {
          await wire();
          const found = stored;
          await wire();
          return found;
        });
      const write = (step: Step): Promise<unknown> => {
        const made = deviceCommit({ tenantId });
        return counts
          .during([step === 'remove' ? removal(made) : made], async () => {
            await wire();
            if (step === 'add' || step === 'in doubt') stored += 1;
            if (step === 'remove') stored -= 1;
            await wire();
            if (step === 'in doubt' || step === 'refused') throw new Error(step);
            return { lost: step === 'lost' ? [made.ref] : [] };
          })
          .catch(() => {});
      };
      const running = steps.map((step) => (step === 'count' ? read() : write(step)));
      await scheduler.waitAll();
      await Promise.all(running);
      expect(await counts.of(tenantId, async () => stored)).toBe(stored);
    }),
  );
});
