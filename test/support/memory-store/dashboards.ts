import type { Dashboard } from '../../../src/domain/dashboard.ts';
import type { DashboardStore } from '../../../src/store/contract/dashboards.ts';
import { bigint, type Columns, integer, jsonb, nullable, refuse, rowOf, text, uuid } from './columns.ts';
import { putIdempotency } from './idempotency.ts';
import { newestFirst } from './keyset-pagination.ts';
import type { Session } from './session.ts';

const columns: Columns<Dashboard> = {
  ...{ id: uuid, tenantId: uuid, name: text, homeId: nullable(uuid), version: integer, tiles: jsonb },
  ...{ createdBy: text, createdAt: bigint, changedBy: text, changedAt: bigint },
};

export const dashboardStore = (session: Session): DashboardStore => ({
  insert: (dashboard, idempotency) =>
    session.write('dashboards.insert', [dashboard, idempotency], (tables, dashboard, idempotency) => {
      const row = rowOf(columns, dashboard);
      if (tables.dashboards.has(row.id)) refuse('23505', 'duplicate key value violates unique constraint');
      tables.dashboards.set(row.id, row);
      putIdempotency(tables, idempotency);
    }),

  list: (tenantId, homeId, limit, after) =>
    session.read('dashboards.list', [tenantId, homeId, limit, after], (tables, tenantId, homeId, limit, after) => {
      const own = tables.dashboards.where(
        (one) => one.tenantId === tenantId && (homeId === null || one.homeId === homeId),
      );
      const entries = own.map(({ tiles, ...one }) => ({ ...one, tileCount: tiles.length }));
      return newestFirst(entries, (one) => one, limit, after);
    }),

  find: (tenantId, id) =>
    session.read('dashboards.find', [tenantId, id], (tables, tenantId, id) => {
      const found = tables.dashboards.get(id);
      return found?.tenantId === tenantId ? found : null;
    }),

  count: (tenantId) =>
    session.read(
      'dashboards.count',
      [tenantId],
      (tables, tenantId) => tables.dashboards.where((one) => one.tenantId === tenantId).length,
    ),

  replace: (dashboard, idempotency) =>
    session.write('dashboards.replace', [dashboard, idempotency], (tables, dashboard, idempotency) => {
      const row = rowOf(columns, dashboard);
      const before = tables.dashboards.get(row.id);
      if (before === undefined || before.tenantId !== row.tenantId || before.version !== row.version - 1) return false;
      const { createdBy, createdAt } = before;
      tables.dashboards.set(row.id, { ...row, createdBy, createdAt });
      putIdempotency(tables, idempotency);
      return true;
    }),

  delete: (tenantId, id) =>
    session.write('dashboards.delete', [tenantId, id], (tables, tenantId, id) =>
      tables.dashboards.get(id)?.tenantId === tenantId ? tables.dashboards.delete(id) : false,
    ),
});
