import { expect, it } from 'vitest';
import { LastActivities, type LastActivity } from '../../../src/store/postgres/last-activity.ts';
import { fc } from '../../support/properties.ts';

const stored = (entries: Record<string, LastActivity>) => async (missing: readonly string[]) =>
  new Map(missing.flatMap((id) => (entries[id] === undefined ? [] : [[id, entries[id]] as const])));

it('activity is read once for each device, also for one without a message', async () => {
  const activities = new LastActivities();
  const asked: (readonly string[])[] = [];
  const read = (ids: readonly string[]) =>
    activities.of(ids, (missing) => {
      asked.push(missing);
      return stored({ a: { lastSeen: 5, battery: null } })(missing);
    });
  expect(await read(['a', 'b'])).toEqual([
    { lastSeen: 5, battery: null },
    { lastSeen: null, battery: null },
  ]);
  expect(await read(['b', 'c', 'a'])).toEqual([
    { lastSeen: null, battery: null },
    { lastSeen: null, battery: null },
    { lastSeen: 5, battery: null },
  ]);
  expect(asked).toEqual([['a', 'b'], ['c']]);
  expect(activities.sizes()).toEqual({ last_activities: 3 });
});

it('activity is read again when tenants were added to the process, also while it was being read', async () => {
  let generation = 0;
  const activities = new LastActivities(() => generation);
  const seen = async (lastSeen: number) => {
    const [found] = await activities.of(['a'], stored({ a: { lastSeen, battery: null } }));
    return found?.lastSeen;
  };
  expect([await seen(1), await seen(2)]).toEqual([1, 1]);
  generation += 1;
  const [during] = await activities.of(['a'], async () => {
    generation += 1;
    return new Map([['a', { lastSeen: 3, battery: null }]]);
  });
  expect(during?.lastSeen).toBe(3);
  expect([await seen(4), await seen(5)]).toEqual([4, 4]);
});

it('a read that a flush overtakes is not kept', async () => {
  const activities = new LastActivities();
  const [overtaken] = await activities.of(['a'], async (missing) => {
    const before = await stored({ a: { lastSeen: 1, battery: 50 } })(missing);
    await activities.during([{ deviceId: 'a', lastSeen: 2, battery: 49 }], async () => {});
    return before;
  });
  expect(overtaken).toEqual({ lastSeen: 1, battery: 50 });
  expect(await activities.of(['a'], stored({ a: { lastSeen: 2, battery: 49 } }))).toEqual([
    { lastSeen: 2, battery: 49 },
  ]);
});

/** `refused`: nothing stored; `in doubt`: stored, but the answer is lost. */
const outcomes = ['stored', 'refused', 'in doubt'] as const;

it('shows what the store has after any sequence of flushes and reads', async () => {
  const step = fc.oneof(
    fc.record({ type: fc.constant('list' as const), ids: fc.subarray(['a', 'b', 'c']) }),
    fc.record({
      type: fc.constant('flush' as const),
      id: fc.constantFrom('a', 'b', 'c'),
      // 0 leaves the time unchanged.
      lastSeen: fc.nat(5),
      battery: fc.option(fc.nat(100), { nil: undefined }),
      outcome: fc.constantFrom(...outcomes),
      /** A list while the flush is being written, before or after it takes effect. */
      during: fc.constantFrom('before', 'after', null),
    }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const activities = new LastActivities();
      const table: Record<string, LastActivity> = {};
      const expectStored = async (ids: readonly string[]) => {
        const found = await activities.of(ids, stored(table));
        expect(found).toEqual(ids.map((id) => table[id] ?? { lastSeen: null, battery: null }));
      };
      for (const one of steps) {
        if (one.type === 'list') {
          await expectStored(one.ids);
          continue;
        }
        const { id, lastSeen, battery, outcome, during } = one;
        const flush = async () => {
          if (during === 'before') await activities.of([id], stored(table));
          if (outcome === 'refused') throw new Error('refused');
          const old = table[id] ?? { lastSeen: null, battery: null };
          table[id] = {
            lastSeen: Math.max(old.lastSeen ?? 0, lastSeen) || null,
            battery: battery ?? old.battery,
          };
          if (during === 'after') await activities.of([id], stored(table));
          if (outcome === 'in doubt') throw new Error('connection lost');
        };
        const row = { deviceId: id, lastSeen, ...(battery !== undefined && { battery }) };
        await activities.during([row], flush).catch(() => {});
      }
      await expectStored(['a', 'b', 'c']);
    }),
  );
});
