import { z } from 'zod';
import { commandStatuses } from '../../domain/command.ts';
import { iso } from '../../domain/iso-time.ts';
import { done } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import { targetTenant, tenantIdInput } from '../identity/target-tenant.ts';
import { isoTime } from '../inputs.ts';
import { operation } from '../operation.ts';

/** The period that commands and plans are counted for. */
const WINDOW_MS = 3_600_000;

export const getOverview = operation({
  name: 'getOverview',
  summary: 'Show an overview of the tenant: devices, commands of the last hour, and failures',
  input: z.strictObject({ tenant_id: tenantIdInput }),
  output: z.object({
    since: isoTime.meta({ description: 'Commands and plans created since this time are counted' }),
    devices: z
      .object({ total: z.int(), online: z.int() })
      .meta({ description: 'Number of registered devices, and of those that are online; without revoked devices' }),
    commands: z
      .object(
        Object.fromEntries(commandStatuses.map((status) => [status, z.int()])) as Record<
          (typeof commandStatuses)[number],
          z.ZodInt
        >,
      )
      .meta({ description: 'Number of commands in each status; at most the newest 20,000 commands' }),
    failing_devices: z
      .array(z.object({ id: uuid, name: z.string().nullable(), failures: z.int() }))
      .meta({ description: 'Devices whose commands failed or timed out, most failures first; at most 5' }),
    failed_rollbacks: z
      .array(z.object({ id: uuid, name: z.string().nullable(), since: isoTime }))
      .meta({ description: 'Plans whose rollback failed, newest first; at most 5' }),
  }),
  role: 'viewer',
  acrossTenants: true,
  scope: 'read:tenant',
  changes: false,
  refuses: ['FORBIDDEN', 'NOT_FOUND'],
  needs: ['actors', 'clock', 'store'],
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
