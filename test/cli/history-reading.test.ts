import { expect, it } from 'vitest';
import type { Api } from '../../src/cli/api.ts';
import { chartValues, fetchHistory, type History } from '../../src/cli/history-reading.ts';

const AT = Date.parse('2026-03-01T12:00:00.000Z');
const MINUTE = 60_000;
const iso = (minutes: number) => new Date(AT + minutes * MINUTE).toISOString();
const sample = (minutes: number, value: number | string) => ({
  ...{ at: iso(minutes), value, received_at: iso(minutes), sequence_number: minutes },
});
const history = (more: Partial<History>): History => ({
  ...{ device_id: 'd', property: 'p', from: iso(0), to: iso(60), step: 'raw', source: 'samples' },
  ...{ samples: null, points: null, before: null, next_from: null, ...more },
});

/** A service whose pages have ten samples, of `count`. */
function serviceWith(count: number) {
  const requests: string[] = [];
  const request = async (_method: string, path: string) => {
    const from = new URL(path, 'http://x').searchParams.get('from') ?? iso(0);
    requests.push(from);
    const first = (Date.parse(from) - AT) / MINUTE;
    const samples = Array.from({ length: Math.min(10, count - first) }, (_, n) => sample(first + n, first + n));
    const next_from = first + 10 < count ? iso(first + 10) : null;
    return { body: { history: history({ from, samples, next_from }) } };
  };
  return { api: { request } as unknown as Api, requests };
}

it('the pages of a long range are read one after another, as one answer', async () => {
  const { api, requests } = serviceWith(25);
  const found = await fetchHistory(api, 'd', { property: 'p', from: iso(0), step: 'raw' });
  expect(requests).toEqual([iso(0), iso(10), iso(20)]);
  expect(found).toMatchObject({ from: iso(0), next_from: null });
  expect(found.samples?.map(({ value }) => value)).toEqual(Array.from({ length: 25 }, (_, n) => n));
});

it('a range with too many samples to be held names where it ended', async () => {
  const { api, requests } = serviceWith(5_000);
  const found = await fetchHistory(api, 'd', { property: 'p', step: 'raw' });
  expect([requests.length, found.samples?.length, found.next_from]).toEqual([100, 1_000, iso(1_000)]);
});

it('a text lasts until the next sample, and the last one until now', () => {
  const values = chartValues(
    history({ samples: [sample(0, 'on'), sample(5, 7), sample(10, 'off')] }),
    AT + 12 * MINUTE,
  );
  expect(
    values.map(({ start, end, min, states }) => [(start - AT) / MINUTE, (end - AT) / MINUTE, min, states]),
  ).toEqual([
    [0, 5, null, [['on', 5 * MINUTE]]],
    [5, 5, 7, []],
    [10, 12, null, [['off', 2 * MINUTE]]],
  ]);
});

it('a stepped number lasts until the next one, and begins with the one before', () => {
  const point = (minutes: number, min: number, max: number, last: number) => ({
    ...{ at: iso(minutes), count: 2, min, max, mean: null, last, states: [] },
  });
  const values = chartValues(
    history({ step: '1m', points: [point(5, 20, 22, 20), point(10, 21, 21, 21)], before: 19 }),
    AT + 12 * MINUTE,
    true,
  );
  expect(values.map(({ start, end, min, max }) => [(start - AT) / MINUTE, (end - AT) / MINUTE, min, max])).toEqual([
    [0, 5, 19, 19],
    [5, 6, 20, 22],
    [6, 10, 20, 20],
    [10, 11, 21, 21],
    [11, 12, 21, 21],
  ]);
  const samples = chartValues(history({ samples: [sample(5, 20)] }), AT + 12 * MINUTE, true);
  expect(samples.map(({ start, end }) => [(start - AT) / MINUTE, (end - AT) / MINUTE])).toEqual([
    [5, 5],
    [5, 12],
  ]);
  const alone = chartValues(history({ samples: [], before: 3 }), AT + MINUTE, true);
  expect(alone).toEqual([{ start: AT, end: AT + MINUTE, min: 3, max: 3, states: [] }]);
});
