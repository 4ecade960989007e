import type { OverviewQuery } from '../contract/overview.ts';
import { failedStatuses } from './command-statuses.ts';
import type { Database } from './database.ts';

/** Maximum number of commands that are counted: a busy tenant's newest. */
const MAX_SCANNED = 20_000;
const MAX_LISTED = 5;

/** A dry run that waits for nobody, as in `GET /confirmations`. */
const isPreview = `(status = 'awaiting_confirmation' and coalesce((context->'confirmation'->>'asked')::boolean, false))`;

interface CommandRow {
  device_id: string | null;
  name: string | null;
  status: string | null;
  number: number;
}

export const overviewStore = (database: Database): { overview: OverviewQuery } => ({
  async overview(tenantId, since) {
    const [devices, commands, plans] = await Promise.all([
      database.read<{ total: number; online: number }>({
        name: 'overview_devices',
        scope: { tenantId },
        // Subtracted, because the counts of all and of online devices need only their indexes.
        text: `select (select count(*)::int from devices where tenant_id = $1 and not deleted) - revoked.total as total,
            (select count(*)::int from devices where tenant_id = $1 and online and not deleted) - revoked.online as online
          from (select count(*)::int as total, count(*) filter (where online)::int as online
            from devices where tenant_id = $1 and revoked and not deleted) revoked`,
        values: [tenantId],
      }),
      database.read<CommandRow>({
        name: 'overview_commands',
        scope: { tenantId },
        text: `with seen as (
            select device_id, status from commands where tenant_id = $1 and created_at >= $2 and not ${isPreview}
            order by created_at desc, id desc limit ${MAX_SCANNED}),
          failing as (
            select device_id, count(*)::int as number from seen where status in ${failedStatuses}
            group by device_id order by count(*) desc, device_id limit ${MAX_LISTED})
          select null::uuid as device_id, null as name, status, count(*)::int as number from seen group by status
          union all
          select failing.device_id, coalesce(devices.context->>'name', devices.device_type), null, number
          from failing join devices on devices.id = failing.device_id and not devices.deleted`,
        values: [tenantId, since],
      }),
      database.read<{ id: string; name: string | null; since: number }>({
        name: 'overview_plans',
        scope: { tenantId },
        text: `select id, context->>'name' as name, since from plans
          where tenant_id = $1 and created_at >= $2 and status = 'rollback_failed'
          order by created_at desc, id desc limit ${MAX_LISTED}`,
        values: [tenantId, since],
      }),
    ]);
    return {
      devices: devices[0] ?? { total: 0, online: 0 },
      commands: Object.fromEntries(
        commands.flatMap(({ status, number }) => (status === null ? [] : [[status, number]])),
      ),
      failing: commands
        .flatMap(({ device_id: deviceId, name, number }) =>
          deviceId === null ? [] : [{ deviceId, name, failures: number }],
        )
        .sort((a, b) => b.failures - a.failures),
      rollbacksFailed: plans,
    };
  },
});
