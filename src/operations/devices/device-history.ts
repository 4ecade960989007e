import { z } from 'zod';
import { DAY_MS } from '../../domain/day.ts';
import type { Aggregate } from '../../domain/history/export-rows.ts';
import { readCost } from '../../domain/history/read-cost.ts';
import { CHOSEN_POINTS } from '../../domain/history/step.ts';
import { readStep } from '../../domain/history/step-length.ts';
import { done, type Outcome } from '../../domain/refusals.ts';
import type { Milliseconds, Uuid } from '../../domain/values.ts';
import { idOf } from '../inputs.ts';
import { operation, type Services, tenantOf } from '../operation.ts';
import { findDevice, pendingReports } from './device-view.ts';
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
  isSampleStep,
  propertyPath,
  rangeInput,
  sizeRefusal,
} from './history-range.ts';
import type { RequestedSeries } from './series-days.ts';
import { readBuckets, readSamples } from './series-reader.ts';

/** The longest range of samples of an answer: several statements read it. */
const MAX_PAGE_MS: Milliseconds = 31 * DAY_MS;
/** States of an answer: two for each of `MAX_ANSWER_POINTS`. */
const MAX_ANSWER_STATES = 20_000;

const input = z.strictObject({
  id: idOf('device'),
  property: propertyPath,
  ...rangeInput,
  limit: z
    .int()
    .min(1)
    .max(MAX_ANSWER_POINTS)
    .optional()
    .meta({
      description: `Samples or intervals of the answer at most. Default: ${MAX_ANSWER_POINTS}, and 500 in GraphQL`,
    }),
});

const AT = '2026-03-01T12:00:00.000Z';

export const getDeviceHistory = operation({
  name: 'getDeviceHistory',
  summary: 'Show the history of a property of a device: samples, changes, or aggregates of intervals',
  input,
  output: z.object({ history: deviceHistory }),
  role: 'user',
  scope: 'read:history',
  restrictedKeys: 'devices',
  changes: false,
  refuses: ['NOT_FOUND', 'OVERLOADED'],
  example: {
    output: {
      history: {
        ...{ device_id: '0195d9a2-7f00-7000-8000-000000000001', property: 'temperature' },
        ...{ from: AT, to: '2026-03-01T13:00:00.000Z', step: '1m', source: '1m', samples: null },
        ...{ before: 20.5, next_from: null },
        points: [{ at: AT, count: 2, min: 20.5, max: 21.5, mean: 21, last: 21.5, states: [] }],
      },
    },
  },
  needs: ['actors', 'clock', 'settings', 'store'],
  async run(services, { input: given, caller, charge }) {
    const found = await findDevice(services, caller, given.id);
    if (!found.ok) return found;
    const shown = aggregatesOf(given.agg);
    if (!shown.ok) return shown;
    const { limit = MAX_ANSWER_POINTS } = given;
    const range = await historyRangeOf(services, caller, given, Math.min(limit, CHOSEN_POINTS));
    if (!range.ok) return range;
    const refused = sizeRefusal(range.value, { points: limit, rollups: MAX_ROLLUPS });
    if (refused !== null) return refused;
    // The limits of an answer are those of one request.
    const charged = await charge?.(readCost({ points: limit }));
    if (charged?.ok === false) return charged;
    const key = { deviceId: given.id, property: given.property, pending: pendingReports(found.value) };
    const history = isSampleStep(range.value.step)
      ? await readSampleHistory(services, tenantOf(caller), { key, range: range.value, limit })
      : await readPointHistory(services, tenantOf(caller), { key, range: range.value, shown: shown.value });
    return history.ok ? done({ body: { history: history.value } }) : history;
  },
});

async function readSampleHistory(
  services: Pick<Services, 'store'>,
  tenantId: Uuid,
  { key, range, limit }: { key: RequestedSeries; range: HistoryRange; limit: number },
): Promise<Outcome<DeviceHistory>> {
  const end = Math.min(range.to, range.from + MAX_PAGE_MS);
  const request = { tenantId, ...key, from: range.from, to: end, withoutBefore: range.step === 'raw' };
  const read = await readSamples(services, request, limit);
  return read.ok ? done(samplesHistory(key, range, read.value, { end, limit })) : read;
}

async function readPointHistory(
  services: Pick<Services, 'store'>,
  tenantId: Uuid,
  { key, range, shown }: { key: RequestedSeries; range: HistoryRange; shown: ReadonlySet<Aggregate> },
): Promise<Outcome<DeviceHistory>> {
  const { from, to, now, step } = range;
  const read = await readBuckets(services, { tenantId, ...key, from, to }, readStep(step), Math.min(to, now));
  return read.ok ? done(pointsHistory(key, range, read.value, { shown, states: MAX_ANSWER_STATES })) : read;
}
