import { expect, it } from 'vitest';
import { done, type Outcome, refuse } from '../../../src/domain/refusals.ts';
import type { Uuid } from '../../../src/domain/values.ts';
import { selectSeries } from '../../../src/operations/devices/history-selection.ts';
import type { Caller } from '../../../src/operations/operation.ts';
import type { SeriesRows } from '../../../src/store/contract/history.ts';

const caller = { tenantId: 't', scopes: null } as unknown as Caller;
const days = { from: 10, to: 19 };
const none: SeriesRows = { days: [], before: null, parts: [], tail: [], complete: true };
const idOf = (n: number): Uuid => `device ${n}`;

interface Home {
  /** Number of devices, from the newest, 0, to the oldest. */
  devices: number;
  /** Those whose last state has the property. */
  reporting?: readonly number[];
  /** Those with samples of the property on the days. */
  stored?: readonly number[];
  /** Those with so many reports that they cannot be read now. */
  busy?: readonly number[];
}

/** The property `level` of the devices of a home. */
async function selection(
  { devices, reporting = [], stored = [], busy = [] }: Home,
  { limit = 100, charge }: { limit?: number; charge?: (cost: number) => Outcome<null> } = {},
) {
  const charges: number[] = [];
  /** The first and the last device of each read of the history, without those that divide one. */
  const looked: [Uuid | undefined, Uuid | undefined][] = [];
  const ids = Array.from({ length: devices }, (_, n) => idOf(n));
  const committed = (id: Uuid) => {
    const state = reporting.map(idOf).includes(id) ? { level: 1 } : {};
    return { snapshot: { context: { fixed: { manifestVersion: 0 }, live: { state, samples: { pending: [] } } } } };
  };
  const services = {
    actors: { readAll: async (_: string, wanted: Uuid[]) => new Map(wanted.map((id) => [id, committed(id)])) },
    manifests: { load: async () => new Map() },
    store: {
      devices: {
        async list(_tenant: Uuid, _filter: object, count: number, after = { id: '' }) {
          const from = ids.indexOf(after.id) + 1;
          const items = ids.slice(from, from + count).map((id) => ({ id }));
          return { items, next: from + count < ids.length ? { id: ids[from + count - 1] } : null };
        },
      },
      history: {
        async series(_: Uuid, keys: { deviceId: Uuid }[], range: object): Promise<SeriesRows[]> {
          expect(range).toEqual({ ...days, withoutEarlier: true });
          if (keys.some(({ deviceId }) => busy.map(idOf).includes(deviceId)))
            return keys.map(() => ({ ...none, complete: false }));
          looked.push([keys[0]?.deviceId, keys.at(-1)?.deviceId]);
          const body = new Uint8Array();
          return keys.map(({ deviceId }) =>
            stored.map(idOf).includes(deviceId) ? { ...none, days: [{ day: 12, part: 1, body }] } : none,
          );
        },
      },
    },
  } as unknown as Parameters<typeof selectSeries>[0];
  const selected = await selectSeries(
    services,
    caller,
    { devices: { category: 'light' }, properties: ['level'] },
    {
      ...{ limit, daysOf: async () => done(days) },
      async charge(cost) {
        charges.push(cost);
        return charge?.(cost) ?? done(null);
      },
    },
  );
  if (!selected.ok) return { code: selected.refusal.code, looked, charges };
  const { keys, hasMore } = selected.value;
  return { found: keys.map(({ deviceId }) => ids.indexOf(deviceId)), hasMore, looked, charges };
}

it('finds series on every page of the devices, by their state or their samples', async () => {
  const home = { devices: 250, reporting: [3, 220], stored: [0, 99, 150] };
  expect(await selection(home)).toMatchObject({ found: [0, 3, 99, 150, 220], hasMore: false });
  expect(await selection(home, { limit: 5 })).toMatchObject({ found: [0, 3, 99, 150, 220], hasMore: false });
  expect(await selection(home, { limit: 4 })).toMatchObject({ found: [0, 3, 99, 150], hasMore: true });
});

it('looks for 200 series in the history, the newest devices first', async () => {
  const { found, hasMore, looked } = await selection({ devices: 300, reporting: [0, 250], stored: [200, 201, 240] });
  expect([found, hasMore]).toEqual([[0, 200, 250], false]);
  expect(looked).toEqual([
    ['device 1', 'device 99'],
    ['device 100', 'device 199'],
    ['device 200', 'device 200'],
  ]);
});

it('examines 1,000 devices, and has more if there are others', async () => {
  const reporting = [999, 1_000];
  expect(await selection({ devices: 1_000, reporting })).toMatchObject({ found: [999], hasMore: false });
  expect(await selection({ devices: 1_001, reporting })).toMatchObject({ found: [999], hasMore: true });
});

it('looks for none after those that fill the answer', async () => {
  const { found, hasMore, looked } = await selection({ devices: 100, reporting: [2, 5, 8], stored: [9] }, { limit: 2 });
  expect([found, hasMore, looked]).toEqual([[2, 5], true, [['device 0', 'device 7']]]);
});

it('charges a request for each 25 series that it looks for, before it does', async () => {
  expect((await selection({ devices: 130, reporting: [0, 1] })).charges).toEqual([4, 2]);
  expect((await selection({ devices: 3, reporting: [0, 1, 2] })).charges).toEqual([]);
  const charge = () => refuse('RATE_LIMIT_EXCEEDED', 'Too many requests.');
  const refused = await selection({ devices: 50 }, { charge });
  expect(refused).toEqual({ code: 'RATE_LIMIT_EXCEEDED', looked: [], charges: [2] });
});

it('leaves out a device whose reports cannot be read now, and none of the others', async () => {
  expect(await selection({ devices: 20, stored: [3, 8, 19], busy: [8] })).toMatchObject({ found: [3, 19] });
});
