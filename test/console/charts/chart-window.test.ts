import { expect, it } from 'vitest';
import {
  chartHref,
  MAX_CHARTED_SERIES,
  panned,
  untilNow,
  viewFrom,
  windowBetween,
  withSeries,
  zoomed,
} from '../../../console/src/charts/chart-window.ts';

const OWN = '0195d9a2-7f00-7000-8000-000000000001';
const OTHER = '0195d9a2-7f00-7000-8000-000000000002';

it('the address of a chart has its series, range, comparison and kind', () => {
  const view = viewFrom(OWN, new URLSearchParams(`property=a&property=b.c&series=${OTHER}:x:y&range=7d&compare=week`));
  expect(view).toEqual({
    series: [
      { deviceId: OWN, property: 'a' },
      { deviceId: OWN, property: 'b.c' },
      { deviceId: OTHER, property: 'x:y' },
    ],
    ...{ range: '7d', fixed: null, comparison: 'week', showsEvents: true, showsTable: false },
  });
  const query = withSeries(new URLSearchParams('property=old&range=7d'), OWN, view.series);
  expect(viewFrom(OWN, query).series).toEqual(view.series);
  expect(query.get('range')).toBe('7d');
});

it('a fixed time is in it with both ends, and an address that is not valid shows the last 24 hours', () => {
  const fixed = viewFrom(OWN, new URLSearchParams('from=2026-03-01T00:00:00Z&to=2026-03-02T00:00:00Z&view=table'));
  expect(fixed).toMatchObject({ range: null, showsTable: true });
  expect(fixed.fixed).toEqual({ from: Date.UTC(2026, 2, 1), to: Date.UTC(2026, 2, 2) });
  for (const query of ['from=2026-03-02&to=2026-03-01', 'from=x&to=2026-03-01', 'range=5', 'series=a:b', '']) {
    expect(viewFrom(OWN, new URLSearchParams(query))).toMatchObject({ range: '24h', fixed: null, series: [] });
  }
});

it('a chart has at most eight series, each once', () => {
  const query = new URLSearchParams([...Array(20).keys()].flatMap((n) => [['property', `p${n >> 1}`]]));
  expect(viewFrom(OWN, query).series).toHaveLength(MAX_CHARTED_SERIES);
});

it('the link to a chart keeps names with any characters', () => {
  const href = chartHref(OWN, ['a&b', 'c\\.d']);
  const query = new URL(href, 'http://console').searchParams;
  expect(viewFrom(OWN, query).series.map(({ property }) => property)).toEqual(['a&b', 'c\\.d']);
  expect(chartHref(OWN, ['a'], '1h')).toBe(`/devices/${OWN}/history?property=a&range=1h`);
});

it('a zoom keeps the time at the pointer, and neither it nor a selection is shorter than ten seconds', () => {
  const hour = { from: 3_600_000, to: 7_200_000 };
  expect(zoomed(hour, 0.5, 4_500_000)).toEqual({ from: 4_050_000, to: 5_850_000 });
  const shortest = zoomed(hour, 1e-9);
  expect(shortest.to - shortest.from).toBe(10_000);
  expect(windowBetween(5_000_000, 4_000_000)).toEqual({ from: 4_000_000, to: 5_000_000 });
  expect(windowBetween(4_000_000, 4_000_001).to).toBe(4_010_000);
});

it('a move goes neither before 1970 nor beyond now', () => {
  expect(untilNow({ from: 9_000, to: 13_000 }, 8_000)).toEqual({ from: 7_000, to: 11_000 });
  expect(untilNow({ from: 7_000, to: 11_000 }, 8_000)).toEqual({ from: 7_000, to: 11_000 });
  expect(panned({ from: 1_000, to: 2_000 }, 0.25)).toEqual({ from: 1_250, to: 2_250 });
  expect(panned({ from: 1_000, to: 2_000 }, -5)).toEqual({ from: 0, to: 1_000 });
});
