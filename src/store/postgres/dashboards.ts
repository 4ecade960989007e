import type { Dashboard, DashboardSummary } from '../../domain/dashboard.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { DashboardStore } from '../contract/dashboards.ts';
import { countRows } from './count-rows.ts';
import type { Database } from './database.ts';
import { idempotencyCte, idempotencyParameter, idempotentScope } from './idempotency.ts';
import { descendingStart, type ListStatement, readPage } from './keyset-pagination.ts';

interface SummaryRow {
  id: Uuid;
  tenant_id: Uuid;
  name: string;
  home_id: Uuid | null;
  version: number;
  created_by: string;
  created_at: EpochMs;
  changed_by: string;
  changed_at: EpochMs;
}
type Row = SummaryRow & Pick<Dashboard, 'tiles'>;
type EntryRow = SummaryRow & { tile_count: number };

const summaryColumns = 'id, tenant_id, name, home_id, version, created_by, created_at, changed_by, changed_at';
const columns = 'id, tenant_id, name, home_id, version, tiles, created_by, created_at, changed_by, changed_at';

const summaryOf = <R extends SummaryRow>({
  tenant_id,
  home_id,
  created_by,
  created_at,
  changed_by,
  changed_at,
  ...row
}: R) => ({
  ...{ ...row, tenantId: tenant_id, homeId: home_id },
  ...{ createdBy: created_by, createdAt: created_at, changedBy: changed_by, changedAt: changed_at },
});

const dashboardOf = (row: Row): Dashboard => summaryOf(row);
const entryOf = ({ tile_count: tileCount, ...row }: EntryRow): DashboardSummary => ({ ...summaryOf(row), tileCount });

/** Dashboards and their tiles, which are one value: they are read and replaced together. */
export const dashboardStore = (database: Database): DashboardStore => ({
  async insert(
    { id, tenantId, name, homeId, version, tiles, createdBy, createdAt, changedBy, changedAt },
    idempotency,
  ) {
    await database.write({
      name: 'dashboard_insert',
      scope: idempotentScope(tenantId, idempotency),
      text: `with made as (
          insert into dashboards (${columns}) values ($1, $2, $3, $4, $5, $6::jsonb, $7, $8, $9, $10) returning id),
        ${idempotencyCte(11, 'made')}
        select id from made`,
      values: [
        ...[id, tenantId, name, homeId, version, JSON.stringify(tiles), createdBy, createdAt, changedBy, changedAt],
        idempotencyParameter(idempotency),
      ],
    });
  },

  list(tenantId, homeId, limit, after) {
    const statement: ListStatement = {
      name: 'dashboards',
      scope: { tenantId },
      text: `select ${summaryColumns}, jsonb_array_length(tiles) as tile_count from dashboards
        where tenant_id = $1 and (created_at, id) < ($2, $3) and ($4::uuid is null or home_id = $4)
        order by created_at desc, id desc limit $5`,
      values: (start, rows) => [tenantId, ...descendingStart(start), homeId, rows],
    };
    const position = ({ createdAt, id }: DashboardSummary) => ({ createdAt, id });
    return readPage(database, statement, { after, limit, of: entryOf, position });
  },

  async find(tenantId, id) {
    const [row] = await database.read<Row>({
      name: 'dashboard',
      scope: { tenantId },
      text: `select ${columns} from dashboards where id = $1 and tenant_id = $2`,
      values: [id, tenantId],
    });
    return row ? dashboardOf(row) : null;
  },

  count: (tenantId) => countRows(database, 'dashboards_count', 'dashboards where tenant_id = $1', [tenantId], tenantId),

  async replace({ id, tenantId, name, homeId, version, tiles, changedBy, changedAt }, idempotency) {
    const rows = await database.write({
      name: 'dashboard_replace',
      scope: idempotentScope(tenantId, idempotency),
      text: `with changed as (
          update dashboards set name = $3, home_id = $4, version = $5, tiles = $6::jsonb, changed_by = $7, changed_at = $8
          where id = $1 and tenant_id = $2 and version = $5 - 1 returning id),
        ${idempotencyCte(9, 'changed')}
        select id from changed`,
      values: [
        ...[id, tenantId, name, homeId, version, JSON.stringify(tiles), changedBy, changedAt],
        idempotencyParameter(idempotency),
      ],
    });
    return rows.length > 0;
  },

  async delete(tenantId, id) {
    const rows = await database.write({
      name: 'dashboard_delete',
      scope: { tenantId },
      text: 'delete from dashboards where id = $1 and tenant_id = $2 returning id',
      values: [id, tenantId],
    });
    return rows.length > 0;
  },
});
