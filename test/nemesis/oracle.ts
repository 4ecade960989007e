import { sql, watchWrites, writesByEpoch } from '../support/write-oracle.ts';

/*
 * Triggers of the test record which node committed what; the order is that of the commits (`track_commit_timestamp`).
 * A node is found by the session that it recorded for its fence.
 */

const writer = '(select node from node_sessions where pid = pg_backend_pid())';
const transaction = 'pg_current_xact_id()::xid';

/** Each statement that adds to the journal: the shards, their owners at that time, and the node. */
const recordJournal = `
  create table nemesis_journal (shard integer, node uuid, owner uuid, epoch bigint, transaction xid);
  create function nemesis_record_journal() returns trigger language plpgsql as $$
    begin
      insert into nemesis_journal select distinct s.shard, ${writer}, s.owner, s.epoch, ${transaction}
        from added a join shards s on s.shard = get_byte(uuid_send(a.tenant_id), 15);
      return null;
    end $$;
  create trigger nemesis_record_journal after insert on journal referencing new table as added
    for each statement execute function nemesis_record_journal();`;

/** Revocations and reinstatements of devices, and each marking of a command as written to a session of its device. */
const recordDevices = `
  create table nemesis_devices (device_id uuid, what text, id uuid, node uuid, transaction xid);
  create function nemesis_record_revocation() returns trigger language plpgsql as $$
    begin
      insert into nemesis_devices values
        (new.id, case when new.revoked then 'revoked' else 'reinstated' end, null, ${writer}, ${transaction});
      return null;
    end $$;
  create trigger nemesis_record_revocation after update on devices for each row
    when (old.revoked is distinct from new.revoked) execute function nemesis_record_revocation();
  create function nemesis_record_write() returns trigger language plpgsql as $$
    begin
      if tg_op = 'INSERT' or not old.written or
          old.live #>> '{delivery,sessionId}' is distinct from new.live #>> '{delivery,sessionId}' then
        insert into nemesis_devices values (new.device_id, 'written', new.id, ${writer}, ${transaction});
      end if;
      return null;
    end $$;
  create trigger nemesis_record_write after insert or update on commands for each row when (new.written)
    execute function nemesis_record_write();`;

export async function watchCommits(url: string): Promise<void> {
  await watchWrites(url);
  await sql(url, recordJournal + recordDevices);
}

/** The response of a revocation has arrived: every later commit follows it. */
export const recordAnsweredRevocation = (url: string, deviceId: string): Promise<unknown> =>
  sql(url, `insert into nemesis_devices values ($1, 'answered', null, null, ${transaction})`, [deviceId]);

/** In the order of commits, the owners of a shard follow each other, and each has a different epoch. */
const interleaved = `
  with ordered as (select *, pg_xact_commit_timestamp(transaction) as at from nemesis_journal),
  pairs as (select *, lag(node) over w as before_node, lag(epoch) over w as before_epoch from ordered
    window w as (partition by shard order by at, epoch))
  select format('journal of shard %s: node %s in epoch %s of %s, after %s in epoch %s',
    shard, node, epoch, owner, before_node, before_epoch) as violation
  from pairs where node is distinct from owner or epoch < before_epoch or (epoch = before_epoch and node <> before_node)
  limit 5`;

/**
 * A command that is marked as written after the revocation of its device, before its reinstatement. The node that
 * revokes the device may have another batch in flight, which it has released before it answers; any other node reads
 * that the device is revoked.
 */
const writtenToRevoked = `
  with ordered as (select *, pg_xact_commit_timestamp(transaction) as at from nemesis_devices
    where device_id in (select device_id from nemesis_devices where what = 'revoked')),
  known as (select *,
      max(at) filter (where what = 'answered') over w as answered,
      max(at) filter (where what = 'revoked') over w as revoked,
      coalesce(max(at) filter (where what = 'reinstated') over w, '-infinity') as reinstated,
      max(to_char(at, 'YYYYMMDDHH24MISSUS') || coalesce(node::text, '')) filter (where what = 'revoked') over w as revoker
    from ordered window w as (partition by device_id order by at))
  select format('command %s was written to device %s by node %s after its revocation', id, device_id, node) as violation
  from known where what = 'written' and (answered > reinstated
    or (revoked > reinstated and substr(revoker, 21) is distinct from node::text))
  limit 5`;

/** The violations that the database shows since `watchCommits`. */
export async function commitViolations(url: string): Promise<string[]> {
  const writes = await writesByEpoch(url);
  const found = [...(await sql<Found>(url, interleaved)), ...(await sql<Found>(url, writtenToRevoked))];
  return [
    ...writes.flatMap(({ epoch, violations }) => violations.map((table) => `write to ${table} in epoch ${epoch}`)),
    ...found.map(({ violation }) => violation),
  ];
}

interface Found {
  violation: string;
}

/** The commands of these devices that were confirmed or need no confirmation. */
export async function commandsOf(url: string, deviceIds: readonly string[]): Promise<ReadonlySet<string>> {
  const text = `select id from commands where device_id = any($1) and status <> 'awaiting_confirmation'`;
  return new Set((await sql<{ id: string }>(url, text, [deviceIds])).map(({ id }) => id));
}

/** Those of the plans that the database does not have. */
export async function missingPlans(url: string, ids: readonly string[]): Promise<string[]> {
  const text = 'select id from unnest($1::uuid[]) as given(id) where id not in (select id from plans)';
  return (await sql<{ id: string }>(url, text, [ids])).map(({ id }) => id);
}
