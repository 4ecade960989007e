import { z } from 'zod';
import { DAY_MS } from '../../../domain/day.ts';
import type { SampleValue } from '../../../domain/history/sample.ts';
import { type SeriesInterval, type SeriesSummary, summarizeSeries } from '../../../domain/history/series-summary.ts';
import { chooseStep } from '../../../domain/history/step.ts';
import { readStep } from '../../../domain/history/step-length.ts';
import { iso } from '../../../domain/iso-time.ts';
import { done, type Outcome } from '../../../domain/refusals.ts';
import { uuid } from '../../../domain/uuid-schema.ts';
import type { EpochMs, Milliseconds, Uuid } from '../../../domain/values.ts';
import { getDeviceHistory } from '../../../operations/devices/device-history.ts';
import { latestSampleAt } from '../../../operations/devices/history-range.ts';
import { isoTime } from '../../../operations/inputs.ts';
import type { McpToolCall } from './tool.ts';

/** Longer series are not read from samples, which the number of changes needs. */
const MAX_EXACT_SAMPLES = 5_000;
const MAX_EXACT_MS: Milliseconds = 8 * DAY_MS;
const DEFAULT_RANGE_MS: Milliseconds = DAY_MS;
/** Points of a series, and intervals that it is computed from, besides the first. */
export const MAX_POINTS = 50;
/** Digits of a mean that a reader needs. */
const MEAN_DIGITS = 6;

const value = z.json().meta({ description: 'A number, a boolean or a text' });

const point = z.object({
  at: isoTime.meta({ description: 'Time of the sample, or start of the interval' }),
  value: value.optional().meta({ description: 'Of the sample; of an interval the mean, or the last text or boolean' }),
  min: z.number().optional().meta({ description: 'With max, of an interval with several numbers' }),
  max: z.number().optional(),
});

export const seriesSchema = z.object({
  device_id: uuid,
  device_name: z.string().nullable(),
  property: z.string(),
  unit: z.string().nullable().meta({ description: 'From the manifest of the device, or the end of the name' }),
  count: z.int().meta({ description: 'Number of samples' }),
  before: value.optional().meta({ description: 'The last value before the range; null without one' }),
  first: point.nullable().meta({
    description:
      'Without a sample the value before the range, if it lasted: of a text, a boolean, or a number that an action sets or that is kept only when it changes',
  }),
  last: point.nullable(),
  min: z.number().nullable(),
  max: z.number().nullable(),
  mean: z.number().nullable(),
  trend: z.enum(['rising', 'falling', 'steady']).nullable().meta({ description: 'Of the numbers over the range' }),
  changes: z.int().nullable().meta({
    description:
      'Samples with another value than the one before, which may be before the range; null if the samples are too many, or have expired',
  }),
  states: z
    .array(z.object({ state: z.json().optional(), seconds: z.number() }))
    .meta({ description: 'How long each text or boolean lasted, longest first; the state null has the others' }),
  gaps: z.array(z.object({ from: isoTime, to: isoTime })).meta({
    description:
      'The longest times without a sample: longer than five times the usual, or intervals without one; none of a number that an action sets, or that is kept only when it changes',
  }),
  points: z.array(point).meta({ description: 'The samples, or changes, if they are few; otherwise intervals' }),
});
type Series = z.infer<typeof seriesSchema>;

/** A range of whole intervals. */
export interface SummaryRange {
  from: EpochMs;
  to: EpochMs;
  step: string;
}

/** The range of the arguments, by default the last 24 hours, extended to whole intervals. No sample has a later time. */
export function rangeOf(given: { from?: string | undefined; to?: string | undefined }, now: EpochMs): SummaryRange {
  const to = given.to === undefined ? now : Math.min(Date.parse(given.to), latestSampleAt(now));
  const from = given.from === undefined ? Math.min(to, now) - DEFAULT_RANGE_MS : Date.parse(given.from);
  // Samples of a past range have expired, so that no interval is shorter than the shortest roll-up.
  const step = chooseStep(from, to, Number.POSITIVE_INFINITY, MAX_POINTS);
  const length = readStep(step);
  return { from: Math.floor(from / length) * length, to: Math.ceil(to / length) * length, step };
}

/** A property of a device whose history is read. */
export interface SeriesTarget {
  device: { id: Uuid; name: string | null };
  property: string;
  unit: string | null;
  /** Whether a number lasts until the next sample, so that a time without samples is no gap. */
  isStepped: boolean;
}

/** Reads and summarizes a series, with the permissions and limits of `GET /devices/{id}/history`. */
export async function readSeries(
  { caller, perform }: Pick<McpToolCall, 'caller' | 'perform'>,
  { device, property, unit, isStepped }: SeriesTarget,
  range: SummaryRange,
  maxPoints: number,
): Promise<Outcome<Series>> {
  const { from, to, step } = range;
  const read = async (one: string): Promise<Outcome<History>> => {
    const input = { id: device.id, property, from: iso(from), to: iso(to), step: one };
    const outcome = await perform(getDeviceHistory, { input, caller, keyed: null });
    if (!outcome.ok) return outcome;
    return done((outcome.value.body as z.infer<typeof getDeviceHistory.output>).history);
  };
  const intervals = await read(step);
  if (!intervals.ok) return intervals;
  const found = (intervals.value.points ?? []).map(intervalOf);
  const count = found.reduce((sum, one) => sum + one.count, 0);
  const isExact = count > 0 && count <= MAX_EXACT_SAMPLES && to - from <= MAX_EXACT_MS;
  const samples = isExact ? await read('raw') : null;
  if (samples?.ok === false) return samples;
  const all = samples === null ? (count === 0 ? [] : null) : allSamples(samples.value, from);
  const summary = summarizeSeries({
    ...{ intervals: found, step: readStep(step), samples: all, maxPoints, isStepped },
    before: (intervals.value.before ?? null) as SampleValue | null,
    from: Date.parse(intervals.value.from),
  });
  return done({
    device_id: device.id,
    device_name: device.name,
    property,
    unit,
    ...shown(summary, maxPoints),
  });
}

type History = z.infer<typeof getDeviceHistory.output>['history'];
type Point = NonNullable<History['points']>[number];

const intervalOf = ({ at, count, min, max, mean, last, states }: Point): SeriesInterval => ({
  ...{ start: Date.parse(at), count: count ?? 0, min, max, mean },
  last: (last ?? null) as SampleValue | null,
  states: (states ?? []).map(({ state, ms }) => [(state ?? null) as boolean | string | null, ms]),
});

/** Null if the answer does not have all samples of the range. */
const allSamples = ({ from, samples, next_from }: History, requested: EpochMs) =>
  samples === null || next_from !== null || Date.parse(from) > requested
    ? null
    : samples.map(({ at, value }) => ({ time: Date.parse(at), value: value as SampleValue }));

function shown({ first, last, mean, states, gaps, points, ...rest }: SeriesSummary, maxPoints: number) {
  return {
    ...rest,
    ...{ first: first && pointOf(first), last: last && pointOf(last), mean: rounded(mean) },
    states: states.map(([state, ms]) => ({ state, seconds: Math.round(ms / 1000) })),
    gaps: gaps.map(({ from, to }) => ({ from: iso(from), to: iso(to) })),
    points: maxPoints === 0 ? [] : points.map(pointOf),
  };
}

const pointOf = ({ at, value, ...range }: SeriesSummary['points'][number]) => ({
  at: iso(at),
  value: range.min === undefined ? value : rounded(value as number),
  ...range,
});

const rounded = (mean: number | null): number | null => mean && Number(mean.toPrecision(MEAN_DIGITS));
