import pg from 'pg';

/** SQL of the shard of a row, by table; null for a table whose rows any node may write. */
const watched: Readonly<Record<string, string | null>> = {
  ...Object.fromEntries(
    ['devices', 'commands', 'plans', 'tenants', 'journal', 'homes'].map((name) => [
      name,
      'get_byte(uuid_send(changed.tenant_id), 15)',
    ]),
  ),
  ...{ outbox: 'changed.shard', timers: 'changed.shard', api_keys: null, audit: null },
};

/*
 * Compares each writing transaction of a service, at its commit, with the owner of the row's shard at that time: a write
 * by the session of another node is a violation, as is one of a node whose epoch was raised. The triggers run as their
 * owner: statements of one tenant run as a role that has no access to these tables.
 */
const checkWriter = (table: string, shard: string | null): string => `
  create function check_writer_of_${table}() returns trigger language plpgsql security definer as $$
    declare writer uuid; current shards; changed ${table};
  begin
    changed := case when tg_op = 'DELETE' then old else new end;
    select node into writer from node_sessions where pid = pg_backend_pid();
    select * into current from shards where shard = ${shard ?? '0'};
    insert into fence_writes values (writer, current.epoch, tg_table_name,
      ${shard === null ? 'not exists (select from nodes where id = writer and epoch = 1)' : 'writer is distinct from current.owner'});
    return null;
  end $$;
  create constraint trigger check_writer after insert or update or delete on ${table}
    deferrable initially deferred for each row execute function check_writer_of_${table}();`;

const setUp = `
  create table fence_writes (node uuid, epoch bigint, relation text, violation boolean);
  ${Object.entries(watched)
    .map(([table, shard]) => checkWriter(table, shard))
    .join('\n')}`;

export interface EpochWrites {
  epoch: number;
  violations: string[];
  writes: number;
}

export async function sql<Row extends object>(url: string, text: string, values: unknown[] = []): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}

/** From now on `writesByEpoch` has the writes of each owner, and violations. */
export const watchWrites = (url: string): Promise<unknown> => sql(url, setUp);

/** By epoch of the shards, in order. */
export const writesByEpoch = (url: string): Promise<EpochWrites[]> =>
  sql<EpochWrites>(
    url,
    `select epoch::integer as epoch, count(*)::integer as writes,
      coalesce(array_agg(distinct relation) filter (where violation), '{}') as violations
    from fence_writes group by epoch order by epoch`,
  );
