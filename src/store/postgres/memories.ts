import { toSearchQuery, toSearchText } from '../../domain/full-text.ts';
import { isSuggestion, type Memory, type MemoryKind } from '../../domain/memory.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { AgentMemoryStore } from '../contract/memories.ts';
import type { Position } from '../contract.ts';
import { type Database, idArray, type SqlValue } from './database.ts';
import { idempotencyCte, idempotencyParameter, idempotentScope } from './idempotency.ts';
import { descendingStart, type ListStatement, readPage } from './keyset-pagination.ts';

interface Row {
  id: Uuid;
  tenant_id: Uuid;
  kind: MemoryKind;
  subject: string | null;
  content: string;
  tags: string[];
  source: string;
  written_by: Memory['writer'];
  adopted_by: Memory['adoption'];
  created_at: EpochMs;
  expires_at: EpochMs | null;
}

const columns = 'id, tenant_id, kind, subject, content, tags, source, created_at, expires_at, written_by, adopted_by';

const memoryOf = ({ id, kind, subject, content, tags, source, ...row }: Row): Memory => ({
  ...{ id, tenantId: row.tenant_id, kind, subject, content, tags, source },
  ...{ writer: row.written_by, adoption: row.adopted_by, createdAt: row.created_at, expiresAt: row.expires_at },
});

const unexpired = (now: string): string => `(expires_at is null or expires_at > ${now})`;

/** Whether a token with these stored scopes may not send commands; null allows everything. */
const mayNotCommandSql = (scopes: string): string => `(jsonb_typeof(${scopes}) = 'array' and not
    ${scopes} ?| array['execute:commands', 'execute:*', '*:commands', '*:*'])`;

/** `isSuggestion` of the domain: `person` is stored as true only for a person. */
const isSuggestionSql = `(kind <> 'observation' and case
    when adopted_by is not null then coalesce(${mayNotCommandSql("(adopted_by->'scopes')")}, false)
    when written_by is null then source not like 'user:%'
    else coalesce(written_by->'by'->>'person', '') <> 'true' or coalesce(${mayNotCommandSql("(written_by->'scopes')")}, false) end)`;

/** `memoryAuthorOf` of the domain. */
const authorSql = `coalesce(adopted_by - 'at', written_by, to_jsonb(source))`;

/** The tenant's id as a lexeme in `search`. */
const tenantLexeme = (tenant: string): string => `replace((${tenant}::uuid)::text, '-', '')`;

const text = `websearch_to_tsquery('simple', $10)`;
/** A text without a lexeme matches nothing; as a query it would not restrict the result. */
const matchingText = `and numnode(${text}) > 0 and search @@ (${tenantLexeme('$1')}::tsquery && ${text})`;

const listQuery = (matching: string): string => `select ${columns} from memories
  where tenant_id = $1 and (created_at, id) < ($2, $3) and ${unexpired('$4')}
    and ($5::text is null or kind = $5) and ($6::text is null or subject = $6) and ($7::text is null or tags ? $7)
    and ($8::boolean is null or ${isSuggestionSql} = $8)
    and ${authorSql} not in (select jsonb_array_elements($9::jsonb))
    ${matching}
  order by created_at desc, id desc limit $${matching === '' ? 10 : 11}`;

export const agentMemoryStore = (database: Database): AgentMemoryStore => ({
  async insert(memory, most, idempotency) {
    const { id, tenantId, kind, subject, content, tags, source, writer, adoption, createdAt, expiresAt } = memory;
    const rows = await database.write({
      name: 'memory_insert',
      scope: idempotentScope(tenantId, idempotency),
      text: `with held as (select count(*) as n from memories where tenant_id = $2 and ${isSuggestionSql} = $15::boolean),
        needed as (select greatest(n + 1 - $11::bigint, 0) as n from held),
        gone as (
          delete from memories where id in (
            select id from (
              (select id, 1 as priority from memories
                where tenant_id = $2 and expires_at <= $8 and ${isSuggestionSql} = $15::boolean
                order by expires_at limit (select n from needed))
              union all
              (select id, 2 from memories
                where tenant_id = $2 and (kind = 'observation' or $15::boolean)
                  and ${isSuggestionSql} = $15::boolean and (expires_at is null or expires_at > $8)
                order by created_at, id limit (select n from needed))) others
            order by priority limit (select n from needed))
          returning id),
        made as (
          insert into memories (${columns}, search)
          select $1, $2, $3, $4, $5, $6::jsonb, $7, $8, $9, $13::jsonb, $14::jsonb,
            array_to_tsvector(array[${tenantLexeme('$2')}]) || to_tsvector('simple', $10)
          where (select n from needed) <= (select count(*) from gone)
          returning id),
        ${idempotencyCte(12, 'made')}
        select id from made`,
      values: [
        ...[id, tenantId, kind, subject, content, JSON.stringify(tags), source, createdAt, expiresAt],
        toSearchText([subject, content, ...tags].join('\n')),
        most,
        idempotencyParameter(idempotency),
        ...[JSON.stringify(writer), JSON.stringify(adoption)].map((json) => (json === 'null' ? null : json)),
        isSuggestion(memory),
      ],
    });
    return rows.length > 0;
  },

  async list(tenantId, filter, now, limit, after) {
    const { kind = null, subject = null, tag = null, suggestion = null, notBy = [], text } = filter;
    const valuesFrom = (start: Position | undefined): SqlValue[] => [
      ...[tenantId, ...descendingStart(start), now, kind, subject, tag, suggestion, JSON.stringify(notBy)],
    ];
    const statement: ListStatement =
      text === undefined
        ? {
            ...{ name: 'memories', scope: { tenantId }, text: listQuery('') },
            values: (start, rows) => [...valuesFrom(start), rows],
          }
        : {
            // Without a scope: below a policy the full-text index cannot be used, because `@@` is not leakproof.
            name: 'memories_sought',
            text: listQuery(matchingText),
            values: (start, rows) => [...valuesFrom(start), toSearchQuery(text), rows],
          };
    const position = ({ createdAt, id }: Memory) => ({ createdAt, id });
    return readPage(database, statement, { after, limit, of: memoryOf, position });
  },

  async find(tenantId, ids, now) {
    const rows = await database.read<Row>({
      name: 'memories_by_id',
      scope: { tenantId },
      text: `select ${columns} from memories where id = any($2::uuid[]) and tenant_id = $1 and ${unexpired('$3')}`,
      values: [tenantId, idArray(ids), now],
    });
    return rows.map(memoryOf);
  },

  async adopt(tenantId, id, adoption, idempotency) {
    const [row] = await database.write<Row>({
      name: 'memory_adopt',
      scope: idempotentScope(tenantId, idempotency),
      text: `with adopted as (
          update memories set adopted_by = $3::jsonb where id = $1 and tenant_id = $2 and ${unexpired('$4')}
          returning ${columns}),
        ${idempotencyCte(5, 'adopted')}
        select * from adopted`,
      values: [id, tenantId, JSON.stringify(adoption), adoption.at, idempotencyParameter(idempotency)],
    });
    return row ? memoryOf(row) : null;
  },

  async delete(tenantId, id, now) {
    const rows = await database.write({
      name: 'memory_delete',
      scope: { tenantId },
      text: `delete from memories where id = $1 and tenant_id = $2 and ${unexpired('$3')} returning id`,
      values: [id, tenantId, now],
    });
    return rows.length > 0;
  },
});
