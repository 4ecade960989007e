import pg from 'pg';

/** Tables that only the active process writes. */
const watched = ['devices', 'commands', 'tenants', 'journal', 'outbox', 'timers', 'api_keys', 'homes', 'audit'];

/*
 * Compares each writing transaction of a service, at its commit, with the owner of the shard at that time: a write by
 * the session of another node is a violation.
 */
const setUp = `
  create table fence_writes (node uuid, epoch bigint, relation text, violation boolean);
  create function check_writer() returns trigger language plpgsql as $$
    declare writer uuid; current shards;
  begin
    select node into writer from node_sessions where pid = pg_backend_pid();
    select * into current from shards where shard = 0;
    insert into fence_writes values (writer, current.epoch, tg_table_name, writer is distinct from current.owner);
    return null;
  end $$;
  ${watched
    .map(
      (name) => `create constraint trigger check_writer after insert or update or delete on ${name}
        deferrable initially deferred for each row execute function check_writer();`,
    )
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

/** From now on `writesByEpoch` has the writes of each owner of the shard, and violations. */
export const watchWrites = (url: string): Promise<unknown> => sql(url, setUp);

/** By epoch of the shard, in order. */
export const writesByEpoch = (url: string): Promise<EpochWrites[]> =>
  sql<EpochWrites>(
    url,
    `select epoch::integer as epoch, count(*)::integer as writes,
      coalesce(array_agg(distinct relation) filter (where violation), '{}') as violations
    from fence_writes group by epoch order by epoch`,
  );
