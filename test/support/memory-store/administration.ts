import { shardOf } from '../../../src/domain/shards.ts';
import type { AdministrationStore, ShardContents, TenantRow } from '../../../src/store/contract/administration.ts';
import { indexedText } from './columns.ts';
import { actorsOf, positionOf } from './commands.ts';
import type { ActorRow } from './database.ts';
import { putIdempotency } from './idempotency.ts';
import { mapPage, newestFirst } from './keyset-pagination.ts';
import type { Session } from './session.ts';

const tenantRow = ({ ref, columns, context }: ActorRow): TenantRow => ({
  id: ref.id,
  name: columns.name as string,
  slug: columns.slug as string,
  suspended: columns.suspended === true,
  tier: (context.tier ?? null) as string,
  createdAt: columns.created_at as number,
});

export const administrationStore = (session: Session): AdministrationStore => ({
  tenants: (limit, after) =>
    session.read('administration.tenants', [limit, after], (tables, limit, after) =>
      mapPage(
        newestFirst(
          actorsOf(tables, 'tenant', () => true),
          positionOf,
          limit,
          after,
        ),
        tenantRow,
      ),
    ),

  contentsByShard: () =>
    session.read('administration.contentsByShard', [], (tables) => {
      const found = new Map<number, ShardContents>();
      const count = (row: ActorRow, member: 'tenants' | 'devices'): void => {
        const shard = shardOf(row.tenantId);
        const contents = found.get(shard) ?? { shard, tenants: 0, devices: 0 };
        contents[member] += 1;
        found.set(shard, contents);
      };
      for (const row of actorsOf(tables, 'tenant', () => true)) count(row, 'tenants');
      for (const row of actorsOf(tables, 'device', ({ columns }) => columns.deleted !== true)) count(row, 'devices');
      return [...found.values()];
    }),

  flags: () => session.read('administration.flags', [], (tables) => Object.fromEntries(tables.flags)),

  setFlag: (flag, state, idempotency) =>
    session.write('administration.setFlag', [flag, state, idempotency], (tables, flag, state, idempotency) => {
      tables.flags.set(indexedText(flag, 'name') as string, state);
      putIdempotency(tables, idempotency);
    }),
});
