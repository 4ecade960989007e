import { z } from 'zod';
import { DAY_MS, dayOf } from '../../domain/day.ts';
import type { Aggregate } from '../../domain/history/export-rows.ts';
import { readCost } from '../../domain/history/read-cost.ts';
import { CHOSEN_POINTS } from '../../domain/history/step.ts';
import { readStep } from '../../domain/history/step-length.ts';
import { done, type Outcome } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { SeriesKey } from '../../store/contract/history.ts';
import { type Answer, type Call, operation, type Services, tenantOf } from '../operation.ts';
import {
  type DeviceHistory,
  deviceHistory,
  MAX_ANSWER_POINTS,
  MAX_ROLLUPS,
  pointsHistory,
  samplesHistory,
} from './history-answer.ts';
import {
  aggregatesOf,
  type HistoryRange,
  historyRangeOf,
  invalid,
  isSampleStep,
  rangeInput,
  sizeOf,
  sizeRefusal,
} from './history-range.ts';
import { MAX_SERIES, selectionInput, selectSeries } from './history-selection.ts';
import type { RequestedSeries } from './series-days.ts';
import { readManyBuckets, readManySamples } from './series-reader.ts';

/** Samples or intervals of all series. */
const MAX_QUERY_POINTS = 50_000;
/** Stored roll-ups that all series are computed from. */
const MAX_QUERY_ROLLUPS = 500_000;
/** States that the intervals of all series name. */
const MAX_QUERY_STATES = 50_000;
const MAX_PAGE_DAYS = 31;

const DEVICE = '0195d9a2-7f00-7000-8000-000000000001';
const AT = '2026-03-01T12:00:00.000Z';
const TO = '2026-03-01T13:00:00.000Z';

const input = z.strictObject({
  ...selectionInput,
  ...rangeInput,
  limit: z
    .int()
    .min(1)
    .max(MAX_ANSWER_POINTS)
    .optional()
    .meta({
      description: `Samples or intervals of each series at most; of all together ${MAX_QUERY_POINTS}. Default: so many divided by the number of series, at most ${MAX_ANSWER_POINTS}, and 200 in GraphQL`,
    }),
  max_series: z.int().min(1).max(MAX_SERIES).default(MAX_SERIES).meta({
    description: 'Series of the answer at most. Default in GraphQL: 10',
  }),
});

export const queryHistory = operation({
  name: 'queryHistory',
  summary: `Show the histories of up to ${MAX_SERIES} series: properties of devices, which are named, or selected by place, group, tags or category`,
  input,
  bodyRules: { oneOf: [{ required: ['series'] }, { required: ['devices', 'properties'] }] },
  output: z.object({
    series: z.array(deviceHistory).meta({ description: 'In the order of the request, or of the devices' }),
    has_more: z.boolean().meta({ description: 'The selected devices have more series, which were left out' }),
  }),
  role: 'user',
  scope: 'read:history',
  restrictedKeys: 'devices',
  changes: false,
  refuses: ['NOT_FOUND', 'OVERLOADED', 'RATE_LIMIT_EXCEEDED'],
  example: {
    input: { series: [{ device_id: DEVICE, property: 'temperature' }], from: AT, to: TO, step: '1m' },
    output: {
      series: [
        {
          ...{ device_id: DEVICE, property: 'temperature', from: AT, to: TO, step: '1m', source: '1m' },
          ...{ samples: null, before: 20.5, next_from: null },
          points: [{ at: AT, count: 2, min: 20.5, max: 21.5, mean: 21, last: 21.5, states: [] }],
        },
      ],
      has_more: false,
    },
  },
  needs: ['actors', 'clock', 'historyQueries', 'manifests', 'settings', 'store'],
  async run(services, call) {
    // Before the devices are selected, which may need to list all of the tenant.
    const begun = services.historyQueries.begin(tenantOf(call.caller));
    if (!begun.ok) return begun;
    try {
      return await readSelected(services, call);
    } finally {
      begun.value();
    }
  },
});

async function readSelected(
  services: Pick<Services, 'actors' | 'clock' | 'manifests' | 'settings' | 'store'>,
  { input: given, caller, charge }: Call<z.infer<typeof input>>,
): Promise<Outcome<Answer<{ series: DeviceHistory[]; has_more: boolean }>>> {
  const shown = aggregatesOf(given.agg);
  if (!shown.ok) return shown;
  const daysOf = async () => {
    const range = await historyRangeOf(services, caller, given);
    return range.ok ? done({ from: dayOf(range.value.from), to: dayOf(range.value.to - 1) }) : range;
  };
  const selected = await selectSeries(services, caller, given, { limit: given.max_series, daysOf, charge });
  if (!selected.ok) return selected;
  const { keys, hasMore } = selected.value;
  const each = Math.min(MAX_ANSWER_POINTS, Math.floor(MAX_QUERY_POINTS / Math.max(1, keys.length)));
  const { limit = each } = given;
  if (limit > each) return invalid('limit', `must be at most ${each} for ${keys.length} series`);
  const range = await historyRangeOf(services, caller, given, Math.min(limit, CHOSEN_POINTS));
  if (!range.ok) return range;
  const rollups = Math.min(MAX_ROLLUPS, Math.floor(MAX_QUERY_ROLLUPS / Math.max(1, keys.length)));
  const refused = sizeRefusal(range.value, { points: limit, rollups });
  if (refused !== null) return refused;
  const charged = await charge?.(costOf(range.value, keys.length, limit));
  if (charged?.ok === false) return charged;
  const request = { tenantId: tenantOf(caller), keys, range: range.value, limit, shown: shown.value };
  const series = await (isSampleStep(range.value.step) ? samplesOf(services, request) : pointsOf(services, request));
  return series.ok ? done({ body: { series: series.value, has_more: hasMore } }) : series;
}

interface QueryRequest {
  tenantId: Uuid;
  keys: readonly RequestedSeries[];
  range: HistoryRange;
  /** Samples or intervals of each series. */
  limit: number;
  shown: ReadonlySet<Aggregate>;
}

function costOf(range: HistoryRange, series: number, limit: number): number {
  const { intervals, rollup, rollups } = sizeOf(range);
  // Whole days of samples are read for intervals of less than a minute.
  const days = intervals > 0 && rollup === null ? dayOf(range.to - 1) - dayOf(range.from) + 1 : 1;
  const points = isSampleStep(range.step) ? limit : intervals;
  return readCost({ points: points * series, rollups: rollups * series, series: series * days });
}

async function samplesOf(
  services: Pick<Services, 'store'>,
  { tenantId, keys, range, limit }: QueryRequest,
): Promise<Outcome<DeviceHistory[]>> {
  const end = Math.min(range.to, range.from + MAX_PAGE_DAYS * DAY_MS);
  const request = { tenantId, keys, from: range.from, to: end, withoutBefore: range.step === 'raw' };
  const read = await readManySamples(services, request, limit);
  if (!read.ok) return read;
  return done(read.value.map((one, n) => samplesHistory(keys[n] as SeriesKey, range, one, { end, limit })));
}

async function pointsOf(
  services: Pick<Services, 'store'>,
  { tenantId, keys, range, shown }: QueryRequest,
): Promise<Outcome<DeviceHistory[]>> {
  const { from, to, now, step } = range;
  const read = await readManyBuckets(services, { tenantId, keys, from, to }, readStep(step), Math.min(to, now));
  if (!read.ok) return read;
  const { source, series } = read.value;
  const states = Math.floor(MAX_QUERY_STATES / keys.length);
  return done(
    series.map((one, n) => pointsHistory(keys[n] as SeriesKey, range, { source, ...one }, { shown, states })),
  );
}
