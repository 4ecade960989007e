import { z } from 'zod';
import { DAY_MS } from '../../domain/day.ts';
import { type Bucket, floorTo, limitStates, meanOf } from '../../domain/history/bucket.ts';
import { retentionOf } from '../../domain/history/retention.ts';
import { rollupSteps } from '../../domain/history/rollup.ts';
import {
  MAX_PROPERTY_LENGTH,
  type Sample,
  type SeriesPath,
  type StoredReport,
  seriesPathOf,
} from '../../domain/history/sample.ts';
import { chooseStep, rollupFor } from '../../domain/history/step.ts';
import { readStep } from '../../domain/history/step-length.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { EpochMs, Milliseconds, Uuid } from '../../domain/values.ts';
import { MAX_DEVICE_SKEW_MS } from '../../store/contract/history.ts';
import { idOf, isoTime, timeInput } from '../inputs.ts';
import { type Answer, type Caller, operation, type Services, tenantOf } from '../operation.ts';
import { tierOf } from '../quota-checks.ts';
import { type CommittedDevice, findDevice } from './device-view.ts';
import { readBuckets, readSamples, type SeriesRequest } from './series-reader.ts';

/** Points of an answer. */
const MAX_POINTS = 10_000;
/** The longest range that is computed from samples. */
const MAX_SAMPLED_MS: Milliseconds = 2 * DAY_MS;
/** The longest range of samples of an answer: several statements read it. */
const MAX_PAGE_MS: Milliseconds = 31 * DAY_MS;
/** Stored roll-ups that an answer is computed from. */
const MAX_ROLLUPS = 50_000;
/** States of an answer: two for each of `MAX_POINTS`. */
const MAX_ANSWER_STATES = 20_000;
const DEFAULT_RANGE_MS: Milliseconds = DAY_MS;

const aggregates = ['min', 'max', 'mean', 'last', 'count', 'states'] as const;
type Aggregate = (typeof aggregates)[number];

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

const history = z
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
    next_from: isoTime.nullable().meta({
      description: `\`from\` of the next request, if the range has over ${MAX_POINTS} samples or is over 31 days`,
    }),
  })
  .meta({ id: 'DeviceHistory' });

export const propertyPath = z.string().min(1).max(MAX_PROPERTY_LENGTH).meta({
  description:
    'The path of a property of the state, as `climate.temperature`; a dot in a name is written `\\.`. `$telemetry.rssi` is what heartbeats report, and a dollar sign at the start of a name is written `\\$`',
});

const input = z.strictObject({
  id: idOf('device'),
  property: propertyPath,
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
});

const AT = '2026-03-01T12:00:00.000Z';

export const getDeviceHistory = operation({
  name: 'getDeviceHistory',
  summary: 'Show the history of a property of a device: samples, changes, or aggregates of intervals',
  input,
  output: z.object({ history }),
  role: 'user',
  scope: 'read:history',
  restrictedKeys: 'devices',
  changes: false,
  refuses: ['NOT_FOUND', 'OVERLOADED'],
  example: {
    output: {
      history: {
        ...{ device_id: '0195d9a2-7f00-7000-8000-000000000001', property: 'temperature' },
        ...{ from: AT, to: '2026-03-01T13:00:00.000Z', step: '1m', source: '1m', samples: null, next_from: null },
        points: [{ at: AT, count: 2, min: 20.5, max: 21.5, mean: 21, last: 21.5, states: [] }],
      },
    },
  },
  needs: ['actors', 'clock', 'settings', 'store'],
  async run(services, { input: given, caller }) {
    const found = await findDevice(services, caller, given.id);
    if (!found.ok) return found;
    const shown = aggregatesOf(given.agg);
    if (!shown.ok) return shown;
    const range = await rangeOf(services, caller, given);
    if (!range.ok) return range;
    const path = pathOf(given.property);
    if (!path.ok) return path;
    const { step } = range.value;
    const { property } = given;
    const request = { tenantId: tenantOf(caller), deviceId: given.id, property, pending: pendingOf(found.value) };
    return step === 'raw' || step === 'changes'
      ? samplesAnswer(services, { ...request, ...range.value }, step)
      : pointsAnswer(services, { ...request, ...range.value }, step, shown.value);
  },
});

/** Where the values of a property are. */
export function pathOf(property: string): Outcome<SeriesPath> {
  const path = seriesPathOf(property);
  return path === null
    ? invalid('property', 'is not a path: only $telemetry begins with $; put a backslash before it in other names')
    : done(path);
}

/** Telemetry that waits for the next commit of its device. */
export const pendingOf = ({ snapshot }: CommittedDevice): StoredReport[] =>
  snapshot.context.live.samples.pending.map(([at, time, sequence, telemetry]) => [at, time, sequence, {}, telemetry]);

type HistoryAnswer = Outcome<Answer<{ history: z.infer<typeof history> }>>;

interface Range {
  from: EpochMs;
  to: EpochMs;
  now: EpochMs;
  step: string;
}

/** No sample has a later time. */
export const latestSampleAt = (now: EpochMs): EpochMs => now + MAX_DEVICE_SKEW_MS;

/** The range that the tenant can still read, and the step. */
async function rangeOf(
  services: Pick<Services, 'actors' | 'clock' | 'settings'>,
  caller: Caller,
  given: z.infer<typeof input>,
): Promise<Outcome<Range>> {
  const now = services.clock.now();
  const latest = latestSampleAt(now);
  const to = given.to === undefined ? latest : Math.min(Date.parse(given.to), latest);
  const from = given.from === undefined ? Math.min(to, now) - DEFAULT_RANGE_MS : Date.parse(given.from);
  if (from < 0 || from >= to) return invalid('from', 'must be before `to` and not in the future, and not before 1970');
  const { samplesFrom, rollupsFrom } = await retainedHistory(services, tenantOf(caller), now);
  const step = given.step ?? chooseStep(from, to, samplesFrom);
  if (step === 'raw' || step === 'changes')
    return done({ from: Math.min(Math.max(from, samplesFrom), to), to, now, step });
  const length = readStep(step);
  const rollup = rollupFor(length);
  const isSampled = rollup === null;
  if ((to - from) / length > MAX_POINTS) return invalid('step', `must divide the range into ${MAX_POINTS} at most`);
  if (isSampled && to - from > MAX_SAMPLED_MS)
    return invalid('step', 'must be a multiple of a minute for a range of over two days');
  if (rollup !== null && (to - from) / rollupSteps[rollup] > MAX_ROLLUPS)
    return invalid('step', 'must be a multiple of 15m, 1h or 1d for a range of this length');
  const retained = isSampled ? samplesFrom : rollupsFrom;
  // A stored interval cannot be divided.
  const end = floorTo(to + length - 1, length);
  return done({ from: floorTo(Math.min(Math.max(from, retained), end - length), length), to: end, now, step });
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

const invalid = (path: string, message: string) =>
  refuse('VALIDATION_FAILED', `${path}: ${message}`, { errors: [{ path, message }] });

function aggregatesOf(text: string | undefined): Outcome<ReadonlySet<Aggregate>> {
  if (text === undefined) return done(new Set(aggregates));
  const names = text.split(',').map((name) => name.trim());
  const known = aggregates.filter((name) => names.includes(name));
  return names.every((name) => (known as readonly string[]).includes(name))
    ? done(new Set(known))
    : invalid('agg', `must be of ${aggregates.join(', ')}`);
}

async function samplesAnswer(
  services: Pick<Services, 'store'>,
  request: SeriesRequest & Range,
  step: 'raw' | 'changes',
): Promise<HistoryAnswer> {
  const { from, to } = request;
  const end = Math.min(to, from + MAX_PAGE_MS);
  const read = await readSamples(services, { ...request, to: end }, MAX_POINTS);
  if (!read.ok) return read;
  const { page, next = end < to ? end : null } = pageOf(read.value.samples);
  const isChange = ({ value }: Sample, n: number): boolean => value !== (page[n - 1]?.value ?? read.value.before);
  const samples = step === 'raw' ? page : page.filter(isChange);
  return answer(request, {
    source: 'samples',
    samples: samples.map((one) => ({
      ...{ at: iso(one.time), value: one.value, received_at: iso(one.at), sequence_number: one.sequence },
    })),
    points: null,
    next_from: next === null ? null : iso(next),
  });
}

/** The first `MAX_POINTS` samples. Those with the same time are not divided, so that `next_from` neither skips nor repeats one. */
function pageOf(samples: readonly Sample[]): { page: readonly Sample[]; next?: EpochMs } {
  const next = samples[MAX_POINTS]?.time;
  if (next === undefined) return { page: samples };
  const page = samples.slice(0, MAX_POINTS).filter(({ time }) => time < next);
  if (page.length > 0) return { page, next };
  return { page: samples.filter(({ time }) => time === next), next: next + 1 };
}

async function pointsAnswer(
  services: Pick<Services, 'store'>,
  request: SeriesRequest & Range,
  step: string,
  shown: ReadonlySet<Aggregate>,
): Promise<HistoryAnswer> {
  const until = Math.min(request.to, request.now);
  const read = await readBuckets(services, request, readStep(step), until);
  if (!read.ok) return read;
  const { source, buckets } = read.value;
  const limited = shown.has('states') ? limitStates(buckets, MAX_ANSWER_STATES) : buckets;
  const points = limited.map((bucket) => pointOf(bucket, shown));
  return answer(request, { source, samples: null, points, next_from: null });
}

function pointOf(
  { start, count, numbers, last, states }: Bucket,
  shown: ReadonlySet<Aggregate>,
): z.infer<typeof point> {
  return {
    at: iso(start),
    count: shown.has('count') ? count : null,
    min: shown.has('min') && numbers ? numbers.min : null,
    max: shown.has('max') && numbers ? numbers.max : null,
    mean: shown.has('mean') && numbers ? meanOf(numbers) : null,
    last: shown.has('last') ? last : null,
    states: shown.has('states') ? states.map(([state, ms]) => ({ state, ms })) : null,
  };
}

const answer = (
  { deviceId, property, from, to, step }: SeriesRequest & Range,
  read: Pick<z.infer<typeof history>, 'source' | 'samples' | 'points' | 'next_from'>,
): HistoryAnswer =>
  done({ body: { history: { device_id: deviceId, property, from: iso(from), to: iso(to), step, ...read } } });
