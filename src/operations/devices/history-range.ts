import { z } from 'zod';
import { DAY_MS } from '../../domain/day.ts';
import { floorTo } from '../../domain/history/bucket.ts';
import { type Aggregate, aggregates } from '../../domain/history/export-rows.ts';
import { retentionOf } from '../../domain/history/retention.ts';
import { type RollupStep, rollupSteps } from '../../domain/history/rollup.ts';
import { MAX_PROPERTY_LENGTH, seriesPathOf } from '../../domain/history/sample.ts';
import { CHOSEN_POINTS, chooseStep, rollupFor } from '../../domain/history/step.ts';
import { readStep } from '../../domain/history/step-length.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { EpochMs, Milliseconds, Uuid } from '../../domain/values.ts';
import { MAX_DEVICE_SKEW_MS } from '../../store/contract/history.ts';
import { timeInput } from '../inputs.ts';
import { type Caller, type Services, tenantOf } from '../operation.ts';
import { tierOf } from '../quota-checks.ts';

/** The longest range that is computed from samples in one answer. */
const MAX_SAMPLED_MS: Milliseconds = 2 * DAY_MS;
const DEFAULT_RANGE_MS: Milliseconds = DAY_MS;

/** The path of a property, in an input. */
export const propertyPath = z
  .string()
  .min(1)
  .max(MAX_PROPERTY_LENGTH)
  .refine(
    (path) => seriesPathOf(path) !== null,
    'is not a path: only $telemetry begins with $; put a backslash before it in other names',
  )
  .meta({
    description:
      'The path of a property of the state, as `climate.temperature`; a dot in a name is written `\\.`. `$telemetry.rssi` is what heartbeats report, and a dollar sign at the start of a name is written `\\$`',
  });

/** The members of an input that name a range and what to show of it. */
export const rangeInput = {
  from: timeInput.optional().meta({ description: 'Default: 24 hours before `to`, or before now if that is earlier' }),
  to: timeInput.optional().meta({
    description: 'Exclusive. Default, and at most: ten minutes from now, as the clock of a device may be ahead',
  }),
  step: z
    .string()
    .regex(/^(?:raw|changes|[1-9]\d{0,4}[smhd])$/)
    .optional()
    .meta({
      description:
        '`raw` for samples, `changes` for those with another value than the one before, or the length of the intervals, such as `30s`, `15m`, `1h` or `7d`, which begin at multiples of it in UTC. Default: a length with 1,000 intervals at most',
    }),
  agg: z
    .string()
    .max(64)
    .optional()
    .meta({ description: `Aggregates of the intervals, separated by commas: ${aggregates.join(', ')}. Default: all` }),
};

interface RangeInput {
  from?: string | undefined;
  to?: string | undefined;
  step?: string | undefined;
}

export interface HistoryRange {
  from: EpochMs;
  /** Exclusive. */
  to: EpochMs;
  now: EpochMs;
  step: string;
  /** The length of what is retained of it, before it was extended to whole intervals. */
  retained: Milliseconds;
}

/** A range with what its intervals are computed from. */
export interface RangeSize {
  /** Number of intervals; 0 for samples. */
  intervals: number;
  /** Roll-ups that the intervals are computed from; null: samples. */
  rollup: RollupStep | null;
  /** Number of those roll-ups; 0 for samples. */
  rollups: number;
}

export const isSampleStep = (step: string): step is 'raw' | 'changes' => step === 'raw' || step === 'changes';

/** No sample has a later time. */
export const latestSampleAt = (now: EpochMs): EpochMs => now + MAX_DEVICE_SKEW_MS;

/** The range that the tenant can still read, extended to whole intervals, and the step; `points`: for which one is chosen. */
export async function historyRangeOf(
  services: Pick<Services, 'actors' | 'clock' | 'settings'>,
  caller: Caller,
  given: RangeInput,
  points = CHOSEN_POINTS,
): Promise<Outcome<HistoryRange>> {
  const now = services.clock.now();
  const latest = latestSampleAt(now);
  const to = given.to === undefined ? latest : Math.min(Date.parse(given.to), latest);
  const from = given.from === undefined ? Math.min(to, now) - DEFAULT_RANGE_MS : Date.parse(given.from);
  if (from < 0 || from >= to) return invalid('from', 'must be before `to` and not in the future, and not before 1970');
  const { samplesFrom, rollupsFrom } = await retainedHistory(services, tenantOf(caller), now);
  const step = given.step ?? chooseStep(from, to, samplesFrom, points);
  const length = isSampleStep(step) ? 1 : readStep(step);
  const hasSamples = isSampleStep(step) || rollupFor(length) === null;
  const retained = hasSamples ? samplesFrom : rollupsFrom;
  const first = Math.min(Math.max(from, retained), to);
  // A stored interval cannot be divided.
  const end = floorTo(to + length - 1, length);
  const start = isSampleStep(step) ? first : floorTo(Math.min(first, end - length), length);
  return done({ from: start, to: end, now, step, retained: to - first });
}

/** The times from which on the tenant can read samples and roll-ups. */
export async function retainedHistory(
  services: Pick<Services, 'actors' | 'settings'>,
  tenantId: Uuid,
  now: EpochMs,
): Promise<{ samplesFrom: EpochMs; rollupsFrom: EpochMs }> {
  const days = retentionOf(services.settings.historyRetention, await tierOf(services, tenantId));
  return { samplesFrom: now - days.samples * DAY_MS, rollupsFrom: now - days.rollups * DAY_MS };
}

export function sizeOf({ step, retained }: HistoryRange): RangeSize {
  if (isSampleStep(step)) return { intervals: 0, rollup: null, rollups: 0 };
  const length = readStep(step);
  const rollup = rollupFor(length);
  const rollups = rollup === null ? 0 : Math.ceil(retained / rollupSteps[rollup]);
  return { intervals: Math.ceil(retained / length), rollup, rollups };
}

/** The refusal of a range with more than `points` intervals or `rollups` stored roll-ups; null if it has not. */
export function sizeRefusal(
  range: HistoryRange,
  { points, rollups }: { points: number; rollups: number },
): ReturnType<typeof invalid> | null {
  const size = sizeOf(range);
  if (size.intervals > points) return invalid('step', `must divide the range into ${points} at most`);
  if (size.intervals > 0 && size.rollup === null && range.retained > MAX_SAMPLED_MS)
    return invalid('step', 'must be a multiple of a minute for a range of over two days');
  if (size.rollups > rollups) return invalid('step', 'must be a multiple of 15m, 1h or 1d for a range of this length');
  return null;
}

export const invalid = (path: string, message: string) =>
  refuse('VALIDATION_FAILED', `${path}: ${message}`, { errors: [{ path, message }] });

export function aggregatesOf(text: string | undefined): Outcome<ReadonlySet<Aggregate>> {
  if (text === undefined) return done(new Set(aggregates));
  const names = text.split(',').map((name) => name.trim());
  const known = aggregates.filter((name) => names.includes(name));
  return names.every((name) => (known as readonly string[]).includes(name))
    ? done(new Set(known))
    : invalid('agg', `must be of ${aggregates.join(', ')}`);
}
