import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { PlanStore } from '../contract.ts';
import { type ActorRow, actorColumns, storedActor } from './actors.ts';
import type { Database } from './database.ts';
import { ascendingStart, descendingStart, type ListStatement, pageOf, readPage } from './keyset-pagination.ts';

type ListedRow = ActorRow & { created_at: EpochMs };

const position = (row: ListedRow) => ({ createdAt: row.created_at, id: row.id });

export const planStore = (database: Database): PlanStore => ({
  async list(tenantId, limit, after) {
    const statement: ListStatement = {
      name: 'plans_list',
      scope: { tenantId },
      text: `select ${actorColumns('plan')}, created_at from plans where tenant_id = $1 and (created_at, id) < ($2, $3)
        order by created_at desc, id desc limit $4`,
      values: (after, rows) => [tenantId, ...descendingStart(after), rows],
    };
    const page = await readPage(database, statement, { after, limit, of: (row: ListedRow) => row, position });
    return { ...page, items: page.items.map((row) => storedActor('plan', row)) };
  },

  async open(tenantId) {
    const rows = await database.read<{ id: Uuid }>({
      name: 'plans_open',
      scope: { tenantId },
      text: 'select id from plans where tenant_id = $1 and not over and quarantine is null order by created_at, id',
      values: [tenantId],
    });
    return rows.map(({ id }) => id);
  },

  async awaitingPlanner(limit, after, tenantId) {
    const rows = await database.read<{ id: Uuid; created_at: EpochMs }>({
      name: tenantId === undefined ? 'plans_thought' : 'plans_thought_of_tenant',
      ...(tenantId !== undefined && { scope: { tenantId } }),
      text: `select id, created_at from plans p
        where thought and quarantine is null and (created_at, id) > ($1, $2) and case when $3::uuid is null
          then not exists (select from tenants t where t.id = p.tenant_id and t.suspended) else tenant_id = $3 end
        order by created_at, id limit $4`,
      values: [...ascendingStart(after), tenantId ?? null, limit + 1],
    });
    const page = pageOf(rows, limit, (row) => ({ createdAt: row.created_at, id: row.id }));
    return { ...page, items: page.items.map(({ id }) => id) };
  },
});
