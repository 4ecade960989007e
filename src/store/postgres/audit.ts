import type { Json, Uuid } from '../../domain/values.ts';
import type { AuditEntry, AuditRow, AuditStore } from '../contract/audit.ts';
import { type EntryPosition, entryPage, newest, startPosition } from '../contract/entry-page.ts';
import type { Database } from './database.ts';

/** Maximum number of entries of each source that one filtered page examines. */
const MAX_SCANNED = 10_000;

/** `n` is the version of an actor, which has several entries; 0 for an audit row. */
interface EntryRow extends EntryPosition {
  by: Uuid;
  key: string | null;
  via: string | null;
  action: string;
  subject: string;
  outcome: string;
  request_id: Uuid | null;
  address: string | null;
  client: string | null;
  count: number;
}

// If the operation is unknown, the event of the machine is used.
const fromJournal = `select at, id, version as n, by->>'id' as by, by->>'key' as key, by->>'via' as via,
    coalesce(by->>'operation', kind || '.' || event) as action, kind || ':' || id as subject,
    case when event = 'request' then coalesce(data->>'code', 'done') else 'done' end as outcome,
    by->>'requestId' as request_id, null::text as address, null::text as client, 1 as count
  from journal where tenant_id = $1 and by->>'kind' = 'user' and (at, id, version) < ($2, $3, $4) and at >= $5`;
const fromRows = (tenantId: string | null): string => `select at, id, 0::bigint as n, by::text as by, key, via, action,
    subject, outcome, request_id::text as request_id, address, client, count
  from audit where ${tenantId === null ? 'tenant_id is null' : 'tenant_id = $1'} and (at, id, 0) < ($2, $3, $4) and at >= $5`;

/** Conditions that use an index: the journal has its own index by subject. */
const subjects = {
  journal: `id = case when split_part($8, ':', 2) ~ '^[0-9a-f-]{36}$' then split_part($8, ':', 2)::uuid end
    and kind = split_part($8, ':', 1)`,
  rows: 'subject = $8',
};

const newestFirst = 'order by at desc, id desc, n desc';
const cursor = `jsonb_build_object('at', at, 'id', id, 'n', n)`;

/** The matching entries, and the last examined cursor of each source that has more. */
const listQuery = (tenantId: Uuid | null, ofSubject: boolean): string => `with
  j as materialized (${fromJournal}${ofSubject ? ` and ${subjects.journal}` : ''}
    order by at desc, id desc, version desc limit $6),
  a as materialized (${fromRows(tenantId)}${ofSubject ? ` and ${subjects.rows}` : ''} order by at desc, id desc limit $6),
  fitting as (select * from (select * from j union all select * from a) told
    where ${ofSubject ? '' : '$8::text is null and '}($9::text is null or by = $9) and ($10::text is null or action = $10) ${newestFirst} limit $7)
  select coalesce((select jsonb_agg(to_jsonb(fitting) ${newestFirst}) from fitting), '[]'::jsonb) as entries,
    (select ${cursor} from j where (select count(*) from j) = $6 order by at, id, n limit 1) as journal_edge,
    (select ${cursor} from a where (select count(*) from a) = $6 order by at, id, n limit 1) as rows_edge`;

export const auditStore = (database: Database): AuditStore => ({
  async append(rows) {
    await database.write({
      name: 'audit_append',
      text: `insert into audit
          (id, tenant_id, at, by, key, via, action, subject, outcome, request_id, address, client, count)
        select id, tenant_id, at, by, key, coalesce(via, ''), action, subject, outcome, request_id, address, client, count
        from jsonb_to_recordset($1::jsonb) as r(id uuid, tenant_id uuid, at bigint, by uuid, key text, via text, action text,
          subject text, outcome text, request_id uuid, address text, client text, count integer)
        on conflict (id) do nothing`,
      values: [JSON.stringify(rows.map(inputOf))],
    });
  },

  async list(tenantId, filter, limit, after) {
    const { at, id, n } = startPosition(filter.to, after);
    const { by = null, action = null, subject = null, from = 0 } = filter;
    const sparse = by !== null || action !== null;
    const [row] = await database.read<{
      entries: EntryRow[];
      journal_edge: EntryPosition | null;
      rows_edge: EntryPosition | null;
    }>({
      name: `audit_list${tenantId === null ? '_service' : ''}${subject === null ? '' : '_subject'}`,
      ...(tenantId !== null && { scope: { tenantId } }),
      text: listQuery(tenantId, subject !== null),
      values: [tenantId, at, id, n, from, sparse ? MAX_SCANNED : limit + 1, limit + 1, subject, by, action],
    });
    if (!row) throw new Error('the audit list query returned no row');
    const page = entryPage(row.entries, newest(row.journal_edge, row.rows_edge), { limit, after });
    return { ...page, items: page.items.map(entryOf) };
  },
});

const inputOf = ({ tenantId, requestId, ...rest }: AuditRow): Json => ({
  ...rest,
  tenant_id: tenantId,
  request_id: requestId,
});

const entryOf = ({ id: _, n: __, request_id: requestId, ...entry }: EntryRow): AuditEntry => ({ ...entry, requestId });
