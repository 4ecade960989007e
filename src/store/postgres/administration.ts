import { shardInSql } from '../../domain/shards.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { AdministrationStore, ShardContents } from '../contract/administration.ts';
import type { Database } from './database.ts';
import { idempotencyCte, idempotencyParameter } from './idempotency.ts';
import { descendingStart, pageOf } from './keyset-pagination.ts';

export const administrationStore = (database: Database): AdministrationStore => ({
  async tenants(limit, after) {
    const rows = await database.read<{
      id: Uuid;
      name: string;
      slug: string;
      suspended: boolean;
      tier: string;
      created_at: EpochMs;
    }>({
      name: 'tenants',
      text: `select id, name, slug, suspended, context->>'tier' as tier, created_at from tenants where (created_at, id) < ($1, $2)
        order by created_at desc, id desc limit $3`,
      values: [...descendingStart(after), limit + 1],
    });
    const tenants = rows.map(({ created_at: createdAt, ...row }) => ({ ...row, createdAt }));
    return pageOf(tenants, limit, ({ createdAt, id }) => ({ createdAt, id }));
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
