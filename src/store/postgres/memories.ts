import { toSearchQuery, toSearchText } from '../../domain/full-text.ts';
import type { Memory, MemoryKind } from '../../domain/memory.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { AgentMemoryStore } from '../contract/memories.ts';
import type { Database } from './database.ts';
import { idempotencyCte, idempotencyParameter } from './idempotency.ts';
import { descendingStart, pageOf } from './keyset-pagination.ts';

interface Row {
  id: Uuid;
  tenant_id: Uuid;
  kind: MemoryKind;
  subject: string | null;
  content: string;
  tags: string[];
  source: string;
  created_at: EpochMs;
  expires_at: EpochMs | null;
}

const columns = 'id, tenant_id, kind, subject, content, tags, source, created_at, expires_at';

const memoryOf = ({ tenant_id: tenantId, created_at: createdAt, expires_at: expiresAt, ...rest }: Row): Memory => ({
  ...rest,
  tenantId,
  createdAt,
  expiresAt,
});

/** The tenant's id as a lexeme in `search`. */
const tenantLexeme = (tenant: string): string => `replace((${tenant}::uuid)::text, '-', '')`;

const text = `websearch_to_tsquery('simple', $8)`;
/** A text without a lexeme matches nothing; as a query it would not restrict the result. */
const matchingText = `and numnode(${text}) > 0 and search @@ (${tenantLexeme('$1')}::tsquery && ${text})`;

const listQuery = (matching: string): string => `select ${columns} from memories
  where tenant_id = $1 and (created_at, id) < ($2, $3) and (expires_at is null or expires_at > $4)
    and ($5::text is null or kind = $5) and ($6::text is null or subject = $6) and ($7::text is null or tags ? $7)
    ${matching}
  order by created_at desc, id desc limit $${matching === '' ? 8 : 9}`;

export const agentMemoryStore = (database: Database): AgentMemoryStore => ({
  async insert(memory, most, idempotency) {
    const { id, tenantId, kind, subject, content, tags, source, createdAt, expiresAt } = memory;
    const rows = await database.write({
      name: 'memory_insert',
      text: `with held as (select count(*) as n from memories where tenant_id = $2),
        needed as (select greatest(n + 1 - $11::bigint, 0) as n from held),
        gone as (
          delete from memories where id in (
            select id from (
              (select id, 1 as priority from memories where tenant_id = $2 and expires_at <= $8
                order by expires_at limit (select n from needed))
              union all
              (select id, 2 from memories
                where tenant_id = $2 and kind = 'observation' and (expires_at is null or expires_at > $8)
                order by created_at, id limit (select n from needed))) others
            order by priority limit (select n from needed))
          returning id),
        made as (
          insert into memories (${columns}, search)
          select $1, $2, $3, $4, $5, $6::jsonb, $7, $8, $9,
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
      ],
    });
    return rows.length > 0;
  },

  async list(tenantId, { kind = null, subject = null, tag = null, text }, now, limit, after) {
    const values = [tenantId, ...descendingStart(after), now, kind, subject, tag];
    const rows = await database.read<Row>(
      text === undefined
        ? { name: 'memories', text: listQuery(''), values: [...values, limit + 1] }
        : {
            name: 'memories_sought',
            text: listQuery(matchingText),
            values: [...values, toSearchQuery(text), limit + 1],
          },
    );
    return pageOf(rows.map(memoryOf), limit, ({ createdAt, id }) => ({ createdAt, id }));
  },

  async delete(tenantId, id, now) {
    const rows = await database.write({
      name: 'memory_delete',
      text: `delete from memories where id = $1 and tenant_id = $2 and (expires_at is null or expires_at > $3)
        returning id`,
      values: [id, tenantId, now],
    });
    return rows.length > 0;
  },
});
