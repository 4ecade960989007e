import { GENESIS_HASH } from '../../domain/audit-chain.ts';
import { NIL_UUID } from '../../domain/uuid.ts';
import type { EpochMs, Json, Uuid } from '../../domain/values.ts';
import type { AuditBlock, AuditChainStore } from '../contract/audit-chain.ts';
import type { Database } from './database.ts';

const userJournal = `by->>'kind' = 'user'`;

/** Both sources in the order of their positions. */
const entriesQuery = (tenantId: Uuid | null): string => {
  const range = 'position > $1 and position <= $2 order by position limit $3';
  const tenant = tenantId === null ? 'tenant_id is null' : 'tenant_id = $4';
  // Only actors of tenants have a journal.
  const fromJournal = `union all (select position, at,
      jsonb_build_array('journal', kind, id, version, at, by, event, from_value, to_value, data) as content
    from journal where ${userJournal} and ${tenant} and ${range})`;
  return `select position, at, content from (
    (select position, at, jsonb_build_array('audit', id, at, by, key, via, action, subject, outcome, request_id,
        address, client, count) as content
      from audit where ${tenant} and ${range})
    ${tenantId === null ? '' : fromJournal}) as e order by position limit $3`;
};

interface BlockRow extends Omit<AuditBlock, 'firstAt' | 'lastAt'> {
  first_at: EpochMs;
  last_at: EpochMs;
}

interface StateRow {
  sequence: number | null;
  position: number | null;
  hash: string | null;
  removed_sequence: number | null;
  removed_position: number | null;
  removed_hash: string | null;
  removed: BlockRow | null;
  last: BlockRow | null;
  expired_before: EpochMs | null;
}

const blockColumns = 'sequence, position, entries, first_at, last_at, digest, previous, hash';
const blockOf = ({ first_at: firstAt, last_at: lastAt, ...rest }: BlockRow): AuditBlock => ({
  ...rest,
  firstAt,
  lastAt,
});

export const auditChainStore = (database: Database): AuditChainStore => ({
  async mark() {
    // Separate statements: the transaction gets its id after every transaction that has assigned one of these positions.
    const [written] = await database.read<{ position: number }>({
      name: 'audit_position',
      text: 'select case when is_called then last_value else 0 end as position from audit_positions',
    });
    const [own] = await database.write<{ id: string }>({
      name: 'audit_transaction',
      text: 'select pg_current_xact_id()::text as id',
    });
    return { position: written?.position ?? 0, transaction: own?.id ?? '' };
  },

  async isSettled(transaction) {
    const [row] = await database.read<{ settled: boolean }>({
      name: 'audit_settled',
      text: 'select pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8 as settled',
      values: [transaction],
    });
    return row?.settled === true;
  },

  async unsealedTenants(after, limit) {
    const rows = await database.read<{ id: Uuid; unsealed: boolean }>({
      name: 'audit_unsealed_tenants',
      text: `select t.id,
          exists (select from audit where tenant_id = t.id and position > coalesce(h.position, 0))
          or exists (select from journal where tenant_id = t.id and ${userJournal} and position > coalesce(h.position, 0))
            as unsealed
        from (select id from tenants where id > $1 order by id limit $2) as t
          left join audit_heads h on h.tenant_id = t.id order by t.id`,
      values: [after, limit],
    });
    const tenants = rows.filter(({ unsealed }) => unsealed).map(({ id }) => id);
    return { tenants, next: rows.length < limit ? null : (rows.at(-1)?.id ?? null) };
  },

  async state(tenantId) {
    const [row] = await database.read<StateRow>({
      name: 'audit_chain_state',
      text: `select h.*, (select expired_before from pruning) as expired_before,
          (select to_jsonb(b) from (select ${blockColumns} from audit_blocks where tenant_id = $1
            order by sequence desc limit 1) as b) as last
        from (select $1::uuid as tenant) as given left join lateral
          (select sequence, position, hash, removed_sequence, removed_position, removed_hash,
              case when removed_entries is not null then jsonb_build_object(
                'sequence', removed_sequence, 'position', removed_position, 'entries', removed_entries,
                'first_at', removed_first_at, 'last_at', removed_last_at, 'digest', removed_digest,
                'previous', removed_previous, 'hash', removed_hash) end as removed
            from audit_heads where tenant_id = given.tenant) as h on true`,
      values: [tenantId ?? NIL_UUID],
    });
    if (!row) throw new Error('the audit chain query returned no row');
    const { sequence, position, hash, last, expired_before: expiredBefore } = row;
    return {
      head: sequence === null || position === null || hash === null ? null : { sequence, position, hash },
      last: last && blockOf(last),
      removed: {
        sequence: row.removed_sequence ?? 0,
        position: row.removed_position ?? 0,
        hash: row.removed_hash ?? GENESIS_HASH,
      },
      removedBlock: row.removed && blockOf(row.removed),
      expiredBefore: expiredBefore ?? 0,
    };
  },

  entries: (tenantId, after, upTo, limit) =>
    database.read<{ position: number; at: EpochMs; content: Json }>({
      name: `audit_chain_entries${tenantId === null ? '_service' : ''}`,
      ...(tenantId !== null && { scope: { tenantId } }),
      text: entriesQuery(tenantId),
      values: tenantId === null ? [after, upTo, limit] : [after, upTo, limit, tenantId],
    }),

  async blocks(tenantId, after, limit) {
    const rows = await database.read<BlockRow>({
      name: 'audit_blocks',
      ...(tenantId !== null && { scope: { tenantId } }),
      text: `select ${blockColumns} from audit_blocks where tenant_id = $1 and sequence > $2 order by sequence limit $3`,
      values: [tenantId ?? NIL_UUID, after, limit],
    });
    return rows.map(blockOf);
  },

  async seal(tenantId, { sequence, position, entries, firstAt, lastAt, digest, previous, hash }) {
    const added = await database.write({
      name: 'audit_seal',
      text: `with head as (
          insert into audit_heads as h (tenant_id, sequence, position, hash) values ($1, $2, $3, $9)
          on conflict (tenant_id) do update
            set sequence = excluded.sequence, position = excluded.position, hash = excluded.hash
            where h.sequence = excluded.sequence - 1 and h.hash = $8
          returning 1)
        insert into audit_blocks (tenant_id, ${blockColumns})
          select $1::uuid, $2::bigint, $3::bigint, $4::integer, $5::bigint, $6::bigint, $7::text, $8::text, $9::text
          from head returning 1 as one`,
      values: [tenantId ?? NIL_UUID, sequence, position, entries, firstAt, lastAt, digest, previous, hash],
    });
    return added.length > 0;
  },
});
