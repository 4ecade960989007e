import { z } from 'zod';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { jsonObject } from '../../domain/request-fields.ts';
import type { EpochMs } from '../../domain/values.ts';
import type { ImportedReport } from '../../machines/device-types.ts';
import { MAX_DEVICE_SKEW_MS } from '../../store/contract/history.ts';
import { idOf, isoTime, timeInput } from '../inputs.ts';
import { operation, tenantOf } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';
import { findDevice } from './device-view.ts';
import { retainedHistory } from './history-range.ts';

/** Reports of one request. */
export const MAX_IMPORTED_REPORTS = 1_000;

const EXAMPLE_TIME = '2026-03-01T12:00:00.000Z';

export const importHistory = operation({
  name: 'importHistory',
  summary: 'Import reports from before the registration of a device into its history; its state stays as it is',
  input: z.strictObject({
    id: idOf('device'),
    reports: z
      .array(z.strictObject({ at: timeInput, state: jsonObject }))
      .min(1)
      .max(MAX_IMPORTED_REPORTS)
      .meta({
        description:
          'Each must be at least ten minutes older than the registration, and within the retention of roll-ups. A report that is imported twice is twice in the history: send an `Idempotency-Key`',
      }),
  }),
  output: z.object({
    device_id: z.string(),
    imported: z.int(),
    from: isoTime.meta({ description: 'The earliest time' }),
    to: isoTime.meta({ description: 'The latest time' }),
  }),
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND', 'DEVICE_REVOKED'],
  example: { input: { reports: [{ at: EXAMPLE_TIME, state: { temperature: 20.5 } }] } },
  needs: ['actors', 'clock', 'settings'],
  async run(services, { input, caller, idempotent }) {
    const found = await findDevice(services, caller, input.id);
    if (!found.ok) return found;
    const now = services.clock.now();
    const { rollupsFrom } = await retainedHistory(services, tenantOf(caller), now);
    const reports = input.reports.map(({ at, state }) => ({ deviceAt: Date.parse(at), state }));
    const refused = timeRefusal(
      reports,
      rollupsFrom,
      found.value.snapshot.context.fixed.createdAt - MAX_DEVICE_SKEW_MS,
    );
    if (!refused.ok) return refused;
    const times = reports.map(({ deviceAt }) => deviceAt);
    const body = {
      ...{ device_id: input.id, imported: reports.length },
      ...{ from: iso(Math.min(...times)), to: iso(Math.max(...times)) },
    };
    const event = { type: 'history.import', at: now, by: caller.principal, reports } as const;
    const reply = await sendToActor(services, found.value.ref, event, () => idempotent?.toRow({ body }));
    return reply.ok ? done({ body }) : reply;
  },
});

/** A report of the device itself is never older than its registration, so that what was imported can be told by its time. */
function timeRefusal(reports: readonly ImportedReport[], from: EpochMs, to: EpochMs): Outcome<null> {
  const errors = reports.flatMap(({ deviceAt }, n) => {
    const path = `reports.${n}.at`;
    if (deviceAt >= to)
      return [{ path, message: 'must be at least ten minutes before the registration of the device' }];
    return deviceAt < from ? [{ path, message: 'must be within the retention of roll-ups' }] : [];
  });
  const [first] = errors;
  if (first === undefined) return done(null);
  return refuse('VALIDATION_FAILED', `${first.path}: ${first.message}`, { errors: errors.slice(0, 20) });
}
