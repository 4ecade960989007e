import { z } from 'zod';
import { commandStatuses } from '../../domain/command.ts';
import { done } from '../../domain/refusals.ts';
import { targetTenant, tenantIdInput } from '../identity/target-tenant.ts';
import { iso, isoTime } from '../inputs.ts';
import { operation } from '../operation.ts';

/** How far it looks back. */
const WINDOW_MS = 3_600_000;

export const getOverview = operation({
  name: 'getOverview',
  summary: 'The tenant at a glance: its devices, its commands of the last hour, and what went wrong',
  input: z.strictObject({ tenant_id: tenantIdInput }),
  output: z.object({
    since: isoTime.meta({ description: 'Commands and plans are those that were made from then on' }),
    devices: z.object({ total: z.int(), online: z.int() }),
    commands: z
      .object(
        Object.fromEntries(commandStatuses.map((status) => [status, z.int()])) as Record<
          (typeof commandStatuses)[number],
          z.ZodInt
        >,
      )
      .meta({ description: 'How many have each status; of a busy tenant the newest 20,000' }),
    failing_devices: z
      .array(z.object({ id: z.uuid(), name: z.string().nullable(), failures: z.int() }))
      .meta({ description: 'Whose commands failed or had no answer, the worst first; at most 5' }),
    failed_rollbacks: z
      .array(z.object({ id: z.uuid(), name: z.string().nullable(), since: isoTime }))
      .meta({ description: 'Plans that could not be undone, the newest first; at most 5' }),
  }),
  role: 'viewer',
  acrossTenants: true,
  scope: 'read:tenant',
  changes: false,
  refuses: ['FORBIDDEN', 'NOT_FOUND'],
  async run(services, { input, caller }) {
    const tenant = await targetTenant(services, caller, input, 'viewer');
    if (!tenant.ok) return tenant;
    const { store, clock } = services;
    const since = clock.now() - WINDOW_MS;
    const { devices, commands, failing, rollbacksFailed } = await store.inspection.overview(tenant.value, since);
    const counted = commandStatuses.map((status) => [status, commands[status] ?? 0] as const);
    return done({
      body: {
        since: iso(since),
        devices,
        commands: Object.fromEntries(counted) as Record<(typeof commandStatuses)[number], number>,
        failing_devices: failing.map(({ deviceId, name, failures }) => ({ id: deviceId, name, failures })),
        failed_rollbacks: rollbacksFailed.map((plan) => ({ id: plan.id, name: plan.name, since: iso(plan.since) })),
      },
    });
  },
});
