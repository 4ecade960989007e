import type { Uuid } from '../../../src/domain/values.ts';
import type { PlanStore } from '../../../src/store/contract.ts';
import { storedActor } from './actors.ts';
import { actorsOf, oldestIds, positionOf } from './commands.ts';
import { actorKey, type Tables } from './database.ts';
import { mapPage, newestFirst, oldestFirst } from './keyset-pagination.ts';
import type { Session } from './session.ts';

export const isSuspended = (tables: Tables, tenantId: Uuid): boolean =>
  tables.actors.get(actorKey({ kind: 'tenant', id: tenantId }))?.columns.suspended === true;

export const planStore = (session: Session): PlanStore => ({
  list: (tenantId, limit, after) =>
    session.read('plans.list', [tenantId, limit, after], (tables, tenantId, limit, after) => {
      const rows = actorsOf(tables, 'plan', (row) => row.tenantId === tenantId);
      return mapPage(newestFirst(rows, positionOf, limit, after), storedActor);
    }),

  open: (tenantId) =>
    session.read('plans.open', [tenantId], (tables, tenantId) =>
      oldestIds(
        actorsOf(
          tables,
          'plan',
          (row) => row.tenantId === tenantId && row.columns.over === false && row.quarantine === null,
        ),
      ),
    ),

  awaitingPlanner: (limit, after, tenantId) =>
    session.read('plans.thought', [limit, after, tenantId], (tables, limit, after, tenantId) => {
      const rows = actorsOf(
        tables,
        'plan',
        (row) =>
          row.columns.thought === true &&
          row.quarantine === null &&
          (tenantId === undefined ? !isSuspended(tables, row.tenantId) : row.tenantId === tenantId),
      );
      return mapPage(oldestFirst(rows, positionOf, limit, after), ({ ref }) => ref.id);
    }),
});
