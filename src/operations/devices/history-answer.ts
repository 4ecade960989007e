import { z } from 'zod';
import { type Bucket, limitStates } from '../../domain/history/bucket.ts';
import { type Aggregate, aggregateOf } from '../../domain/history/export-rows.ts';
import type { Sample } from '../../domain/history/sample.ts';
import { iso } from '../../domain/iso-time.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { EpochMs } from '../../domain/values.ts';
import type { SeriesKey } from '../../store/contract/history.ts';
import { isoTime } from '../inputs.ts';
import type { HistoryRange } from './history-range.ts';
import type { BucketSeries, SampleSeries, SeriesSource } from './series-reader.ts';

// A series as the API shows it, with samples or with intervals.

/** Points of an answer. */
export const MAX_ANSWER_POINTS = 10_000;
/** Stored roll-ups that an answer is computed from. */
export const MAX_ROLLUPS = 50_000;

const value = z.json().meta({ description: 'A number, a boolean or a text' });

const sample = z
  .object({
    at: isoTime.meta({ description: 'The time that the device signed' }),
    value,
    received_at: isoTime,
    sequence_number: z.number(),
  })
  .meta({ id: 'HistorySample' });

const stateTime = z
  .object({
    state: z
      .json()
      .optional()
      .meta({ description: 'A boolean or a text; null for all but the longest states, 16 at most' }),
    ms: z.number().meta({ description: 'Milliseconds in this state' }),
  })
  .meta({ id: 'HistoryStateTime' });

const point = z
  .object({
    at: isoTime.meta({ description: 'Start of the interval' }),
    count: z.int().nullable().meta({ description: 'Number of samples; 0 if a state lasted without one' }),
    min: z.number().nullable(),
    max: z.number().nullable(),
    mean: z.number().nullable().meta({ description: 'Null without numbers, or if their sum is too large' }),
    // Any JSON includes null, and OpenAPI describes both as one.
    last: value.optional(),
    states: z.array(stateTime).nullable().meta({ description: 'How long each text or boolean lasted' }),
  })
  .meta({ id: 'HistoryPoint' });

export const deviceHistory = z
  .object({
    device_id: uuid,
    property: z.string(),
    from: isoTime,
    to: isoTime,
    step: z.string().meta({ description: '`raw`, `changes`, or the length of the intervals' }),
    source: z.string().meta({
      description: 'Source of the answer: `samples`, or roll-ups of this length: `1m`, `15m`, `1h` or `1d`',
    }),
    samples: z.array(sample).nullable().meta({ description: 'With the step `raw` or `changes`' }),
    points: z.array(point).nullable().meta({
      description: 'Otherwise; intervals without a sample and a state are left out',
    }),
    before: value.optional().meta({
      description:
        'The last value before `from`; null without one, and with the step `raw`. A text or a boolean of it lasts until the first sample',
    }),
    next_from: isoTime.nullable().meta({
      description: `\`from\` of the next request, if the range has over \`limit\` samples or is over 31 days`,
    }),
  })
  .meta({ id: 'DeviceHistory' });

export type DeviceHistory = z.infer<typeof deviceHistory>;

const historyOf = (
  { deviceId, property }: SeriesKey,
  { from, to, step }: HistoryRange,
  read: Pick<DeviceHistory, 'source' | 'samples' | 'points' | 'before' | 'next_from'>,
): DeviceHistory => ({ device_id: deviceId, property, from: iso(from), to: iso(to), step, ...read });

/** `end`: of what was read, which may be before the end of the range. */
export function samplesHistory(
  key: SeriesKey,
  range: HistoryRange,
  read: SampleSeries,
  { end, limit }: { end: EpochMs; limit: number },
): DeviceHistory {
  const { page, next = end < range.to ? end : null } = pageOf(read.samples, limit);
  const isChange = ({ value }: Sample, n: number): boolean => value !== (page[n - 1]?.value ?? read.before);
  const samples = range.step === 'raw' ? page : page.filter(isChange);
  return historyOf(key, range, {
    source: 'samples',
    samples: samples.map((one) => ({
      ...{ at: iso(one.time), value: one.value, received_at: iso(one.at), sequence_number: one.sequence },
    })),
    points: null,
    before: range.step === 'raw' ? null : read.before,
    next_from: next === null ? null : iso(next),
  });
}

/** The first `limit` samples. Those with the same time are not divided, so that `next_from` neither skips nor repeats one. */
function pageOf(samples: readonly Sample[], limit: number): { page: readonly Sample[]; next?: EpochMs } {
  const next = samples[limit]?.time;
  if (next === undefined) return { page: samples };
  const page = samples.slice(0, limit).filter(({ time }) => time < next);
  if (page.length > 0) return { page, next };
  return { page: samples.filter(({ time }) => time === next), next: next + 1 };
}

/** `states`: how many the points name at most, all together. */
export function pointsHistory(
  key: SeriesKey,
  range: HistoryRange,
  { source, buckets, before }: BucketSeries & { source: SeriesSource },
  { shown, states }: { shown: ReadonlySet<Aggregate>; states: number },
): DeviceHistory {
  const limited = shown.has('states') ? limitStates(buckets, states) : buckets;
  const points = limited.map((bucket) => pointOf(bucket, shown));
  return historyOf(key, range, { source, samples: null, points, before, next_from: null });
}

const pointOf = (bucket: Bucket, shown: ReadonlySet<Aggregate>): z.infer<typeof point> => ({
  at: iso(bucket.start),
  count: shown.has('count') ? aggregateOf(bucket, 'count') : null,
  min: shown.has('min') ? aggregateOf(bucket, 'min') : null,
  max: shown.has('max') ? aggregateOf(bucket, 'max') : null,
  mean: shown.has('mean') ? aggregateOf(bucket, 'mean') : null,
  last: shown.has('last') ? aggregateOf(bucket, 'last') : null,
  states: shown.has('states') ? aggregateOf(bucket, 'states') : null,
});
