import { shardInSql } from '../../domain/shards.ts';
import type { EpochMs } from '../../domain/values.ts';
import type { AdministrationStore, ShardContents, TenantRow } from '../contract/administration.ts';
import type { Database } from './database.ts';
import { idempotencyCte, idempotencyParameter } from './idempotency.ts';
import { descendingStart, type ListStatement, readPage } from './keyset-pagination.ts';

type ListedTenant = Omit<TenantRow, 'createdAt'> & { created_at: EpochMs };

export const administrationStore = (database: Database): AdministrationStore => ({
  async tenants(limit, after) {
    const statement: ListStatement = {
      name: 'tenants',
      text: `select id, name, slug, suspended, context->>'tier' as tier, created_at from tenants where (created_at, id) < ($1, $2)
        order by created_at desc, id desc limit $3`,
      values: (after, rows) => [...descendingStart(after), rows],
    };
    const of = ({ created_at: createdAt, ...row }: ListedTenant): TenantRow => ({ ...row, createdAt });
    const position = ({ createdAt, id }: TenantRow) => ({ createdAt, id });
    return readPage(database, statement, { after, limit, of, position });
  },

  // Reads indexes alone: tenants by age, and devices by tenant.
  contentsByShard: () =>
    database.read<ShardContents>({
      name: 'shard_contents',
      text: `select shard, sum(tenants)::integer as tenants, sum(devices)::integer as devices from (
          select ${shardInSql('id')} as shard, count(*) as tenants, 0 as devices from tenants group by 1
          union all select ${shardInSql('tenant_id')}, 0, count(*) from devices where not deleted group by 1) counts
        group by shard`,
    }),

  async flags() {
    const rows = await database.read<{ name: string; state: boolean }>({
      name: 'flags',
      text: 'select name, state from flags',
    });
    return Object.fromEntries(rows.map(({ name, state }) => [name, state]));
  },

  async setFlag(flag, state, idempotency) {
    await database.write({
      name: 'flag_set',
      text: `with made as (insert into flags (name, state) values ($1, $2)
          on conflict (name) do update set state = excluded.state returning name), ${idempotencyCte(3, 'made')}
        select name from made`,
      values: [flag, state, idempotencyParameter(idempotency)],
    });
  },
});
