import { setTimeout as pause } from 'node:timers/promises';
import { DAY_MS } from '../../domain/day.ts';
import type { EpochMs } from '../../domain/values.ts';
import type { RetentionStore } from '../contract/retention.ts';
import { finalStatuses } from './command-statuses.ts';
import type { Database, Statement } from './database.ts';

/** A clock may be set back by almost this much before a used session token would count as unused. */
const USED_TOKENS_MS = 2 * 3_600_000;
/** Pause between two batches, for other statements. */
const PAUSE_MS = 20;

/** The smallest UUID version 7 of a time: ids are ordered by creation, so the primary key finds old rows. */
const smallestId = (at: EpochMs): string => {
  const hex = Math.max(0, Math.trunc(at)).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
};

/** CAs that were deleted before `$1` and not registered again. */
const deletedCas = `select id from deleted_cas d where deleted_at < $1
  and not exists (select from device_cas c where c.id = d.id)`;

const prunedOfDeletedCas = [
  [
    'prune_ca_subjects',
    `delete from ca_subjects where (ca_id, common_name) in (
      select ca_id, common_name from ca_subjects where ca_id in (${deletedCas}) limit $2) returning 1 as gone`,
  ],
  [
    'prune_unbound_subjects',
    `delete from unbound_subjects where (ca_id, common_name) in (
      select ca_id, common_name from unbound_subjects where ca_id in (${deletedCas}) limit $2) returning 1 as gone`,
  ],
  [
    'prune_device_certificates',
    `delete from device_certificates where (ca_id, serial_number) in (
      select ca_id, serial_number from device_certificates c where ca_id in (${deletedCas})
        and not exists (select from ca_subjects s where s.ca_id = c.ca_id) limit $2) returning 1 as gone`,
  ],
  [
    'prune_deleted_cas',
    `delete from deleted_cas where id in (
      select id from deleted_cas d where deleted_at < $1
        and not exists (select from ca_subjects s where s.ca_id = d.id)
        and not exists (select from unbound_subjects u where u.ca_id = d.id)
        and not exists (select from device_certificates c where c.ca_id = d.id) limit $2) returning 1 as gone`,
  ],
] as const;

const statements = (now: EpochMs, days: { commands: number; journal: number }, batch: number): Statement[] => [
  {
    // A command with a timer or an undelivered output is not finished, whatever its status.
    name: 'prune_commands',
    text: `delete from commands where id in (
        select id from commands c where id < $1 and created_at < $2 and status in ${finalStatuses}
          and not exists (select from timers t where t.id = c.id and t.kind = 'command')
          and not exists (select from outbox o where o.id = c.id and o.kind = 'command')
        order by id limit $3) returning 1 as gone`,
    values: [smallestId(now - days.commands * DAY_MS), now - days.commands * DAY_MS, batch],
  },
  {
    // Retained as long as commands; a plan that is not over is kept.
    name: 'prune_plans',
    text: `delete from plans where id in (
        select id from plans p where id < $1 and created_at < $2 and over
          and not exists (select from outbox o where o.id = p.id and o.kind = 'plan')
        order by id limit $3) returning 1 as gone`,
    values: [smallestId(now - days.commands * DAY_MS), now - days.commands * DAY_MS, batch],
  },
  {
    name: 'prune_proposals',
    text: `delete from proposals where id in (
        select id from proposals where id < $1 and created_at < $2 order by id limit $3) returning 1 as gone`,
    values: [smallestId(now - days.commands * DAY_MS), now - days.commands * DAY_MS, batch],
  },
  {
    // Retained as long as commands: the journal of what they changed names what got weaker.
    name: 'prune_change_requests',
    text: `delete from change_requests where id in (
        select id from change_requests where id < $1 and created_at < $2 order by id limit $3) returning 1 as gone`,
    values: [smallestId(now - days.commands * DAY_MS), now - days.commands * DAY_MS, batch],
  },
  {
    // Retained longer than its command, as an audit trail; the journal of an open command or plan is kept completely.
    name: 'prune_journal',
    text: `delete from journal where (id, version, kind) in (
        select id, version, kind from journal j where at < $1
          and not exists (select from commands c where c.id = j.id and c.status not in ${finalStatuses})
          and not exists (select from plans p where p.id = j.id and not p.over)
        order by at limit $2) returning 1 as gone`,
    values: [now - days.journal * DAY_MS, batch],
  },
  {
    name: 'prune_audit',
    text: `delete from audit where id in (select id from audit where at < $1 order by at limit $2) returning 1 as gone`,
    values: [now - days.journal * DAY_MS, batch],
  },
  {
    name: 'prune_idempotency',
    text: `delete from idempotency where digest in (
        select digest from idempotency where expires_at < $1 order by expires_at limit $2) returning 1 as gone`,
    values: [now, batch],
  },
  {
    // A day longer than the token: the clock may be ahead and be set back.
    name: 'prune_tokens',
    text: `delete from revoked_tokens where jti in (
        select jti from revoked_tokens where expires_at < $1 order by expires_at limit $2) returning 1 as gone`,
    values: [now - DAY_MS, batch],
  },
  {
    name: 'prune_presented',
    text: `delete from presented_tokens where digest in (
        select digest from presented_tokens where expires_at < $1 order by expires_at limit $2) returning 1 as gone`,
    values: [now - DAY_MS, batch],
  },
  {
    name: 'prune_sessions',
    text: `delete from user_sessions where id in (
        select id from user_sessions where expires_at < $1 order by expires_at limit $2) returning 1 as gone`,
    values: [now, batch],
  },
  {
    name: 'prune_invitations',
    text: `delete from invitations where id in (
        select id from invitations where expires_at < $1 order by expires_at limit $2) returning 1 as gone`,
    values: [now, batch],
  },
  {
    name: 'prune_memories',
    text: `delete from memories where id in (
        select id from memories where expires_at <= $1 order by expires_at limit $2) returning 1 as gone`,
    values: [now, batch],
  },
  {
    name: 'prune_used_tokens',
    text: `delete from used_session_tokens where (signed_at, device_id, nonce) in (
        select signed_at, device_id, nonce from used_session_tokens where signed_at < $1
        order by signed_at limit $2) returning 1 as gone`,
    values: [now - USED_TOKENS_MS, batch],
  },
  {
    // Retained like the journal, which names the key.
    name: 'prune_keys',
    text: `delete from api_keys where prefix in (
        select prefix from api_keys where least(revoked_at, expires_at) < $1 limit $2) returning 1 as gone`,
    values: [now - days.journal * DAY_MS, batch],
  },
  {
    name: 'prune_ca_verifications',
    text: `delete from ca_verifications where (tenant_id, code_hash) in (
        select tenant_id, code_hash from ca_verifications where expires_at < $1 limit $2) returning 1 as gone`,
    values: [now, batch],
  },
  // Of a CA that was deleted, as long as the journal. Bindings first: they do not outlive the revocations.
  ...prunedOfDeletedCas.map(([name, text]) => ({ name, text, values: [now - days.journal * DAY_MS, batch] })),
  {
    // From the beginning of each chain: a block stays as long as an earlier one. Of each chain at most one batch is read.
    name: 'prune_audit_blocks',
    text: `with due as (
        select h.tenant_id, b.sequence from audit_heads h cross join lateral (
          select f.sequence, max(f.last_at) over (order by f.sequence) as newest from (
            select sequence, last_at from audit_blocks where tenant_id = h.tenant_id order by sequence limit $2) as f) as b
        where (select last_at from audit_blocks where tenant_id = h.tenant_id order by sequence limit 1) < $1
          and b.newest < $1 limit $2),
      gone as (
        delete from audit_blocks b using due d where b.tenant_id = d.tenant_id and b.sequence = d.sequence
        returning b.*),
      newest as (select distinct on (tenant_id) * from gone order by tenant_id, sequence desc),
      kept as (
        update audit_heads h set removed_sequence = n.sequence, removed_position = n.position, removed_hash = n.hash,
            removed_entries = n.entries, removed_first_at = n.first_at, removed_last_at = n.last_at,
            removed_digest = n.digest, removed_previous = n.previous
        from newest n where h.tenant_id = n.tenant_id)
      select 1 as gone from gone`,
    values: [now - days.journal * DAY_MS, batch],
  },
];

export const retentionStore = (database: Database): RetentionStore => ({
  async prune(now, days, batch) {
    let deleted = 0;
    // First, so that a verification of the audit chains does not miss what is deleted meanwhile.
    await database.write({
      name: 'pruning_begins',
      text: `insert into pruning (last_at, expired_before) values ($2, $1) on conflict (one) do update
        set expired_before = greatest(pruning.expired_before, excluded.expired_before) returning 1 as stored`,
      values: [now - days.journal * DAY_MS, now],
    });
    const failures: unknown[] = [];
    for (const statement of statements(now, days, batch)) {
      try {
        for (;;) {
          const { length } = await database.write(statement);
          deleted += length;
          if (length < batch) break;
          await pause(PAUSE_MS);
        }
      } catch (error) {
        // A statement that failed, or took too long, does not keep the rows of other tables.
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
    if (database.embedded) await vacuum(database);
    await database.write({
      name: 'pruned',
      text: `insert into pruning (last_at) values ($1) on conflict (one) do update set last_at = excluded.last_at
        returning 1 as stored`,
      values: [now],
    });
    return deleted;
  },

  async begin(now) {
    await database.write({
      name: 'pruning_since',
      text: 'insert into pruning (last_at) values ($1) on conflict (one) do nothing returning 1 as stored',
      values: [now],
    });
  },

  async lastPrunedAt() {
    const [row] = await database.read<{ last_at: EpochMs }>({ name: 'pruned_at', text: 'select last_at from pruning' });
    return row?.last_at ?? null;
  },
});

/**
 * PostgreSQL does this by autovacuum. PGlite has no background processes: without this, dead rows would remain, plans
 * would rely on outdated statistics, and after two thousand million commits it would refuse to write.
 */
async function vacuum(database: Database): Promise<void> {
  const tables = await database.read<{ name: string }>({
    text: `select oid::regclass::text as name from pg_class where relkind = 'r' order by oid desc`,
  });
  for (const { name } of tables) await database.write({ text: `vacuum (analyze) ${name}` });
}
