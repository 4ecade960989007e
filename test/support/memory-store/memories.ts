import { jsonEqual } from '../../../src/domain/json/value.ts';
import { isSuggestion, type Memory, memoryAuthorOf } from '../../../src/domain/memory.ts';
import type { EpochMs, Json } from '../../../src/domain/values.ts';
import type { AgentMemoryStore, MemoryFilter } from '../../../src/store/contract/memories.ts';
import { bigint, type Columns, jsonb, nullable, refuse, rowOf, text, uuid } from './columns.ts';
import type { Tables } from './database.ts';
import { matches } from './full-text.ts';
import { putIdempotency } from './idempotency.ts';
import { newestFirst, oldestFirst } from './keyset-pagination.ts';
import type { Session } from './session.ts';

const columns: Columns<Memory> = {
  ...{ id: uuid, tenantId: uuid, kind: text, subject: nullable(text), content: text, tags: jsonb, source: text },
  ...{ writer: nullable(jsonb), adoption: nullable(jsonb), createdAt: bigint, expiresAt: nullable(bigint) },
};

const isUnexpired = ({ expiresAt }: Memory, now: EpochMs): boolean => expiresAt === null || expiresAt > now;

/**
 * Makes room for one more memory among suggestions or among the others: deletes expired ones first, then the oldest suggestions
 * or observations. False if that is not enough.
 */
function makeRoom(tables: Tables, memory: Memory, most: number): boolean {
  const { tenantId, createdAt: now } = memory;
  const suggested = isSuggestion(memory);
  const own = tables.memories.where((one) => one.tenantId === tenantId && isSuggestion(one) === suggested);
  const needed = Math.max(own.length + 1 - most, 0);
  const expired = own.filter((one) => !isUnexpired(one, now)).sort((a, b) => (a.expiresAt ?? 0) - (b.expiresAt ?? 0));
  const displaceable = own.filter((one) => (suggested || one.kind === 'observation') && isUnexpired(one, now));
  const oldest = oldestFirst(displaceable, (one) => one, displaceable.length).items;
  const deletable = [...expired, ...oldest].slice(0, needed);
  for (const { id } of deletable) tables.memories.delete(id);
  return deletable.length >= needed;
}

function matchesFilter(memory: Memory, filter: MemoryFilter): boolean {
  const { kind, subject, tag, text: query, suggestion, notBy = [] } = filter;
  const author = memoryAuthorOf(memory) as unknown as Json;
  const { subject: about, content, tags, tenantId } = memory;
  return (
    (kind === undefined || memory.kind === kind) &&
    (subject === undefined || about === subject) &&
    (tag === undefined || tags.includes(tag)) &&
    (suggestion === undefined || isSuggestion(memory) === suggestion) &&
    !notBy.some((one) => jsonEqual(one as unknown as Json, author)) &&
    (query === undefined || matches([about, content, ...tags].join('\n'), tenantId, query))
  );
}

export const agentMemoryStore = (session: Session): AgentMemoryStore => ({
  insert: (memory, most, idempotency) =>
    session.write('memories.insert', [memory, most, idempotency], (tables, memory, most, idempotency) => {
      const row = rowOf(columns, memory);
      const existed = tables.memories.has(row.id);
      if (!makeRoom(tables, row, most)) return false;
      if (existed) refuse('23505', 'duplicate key value violates unique constraint "memories_pkey"');
      tables.memories.set(row.id, row);
      putIdempotency(tables, idempotency);
      return true;
    }),

  list: (tenantId, filter, now, limit, after) =>
    session.read(
      'memories.list',
      [tenantId, filter, now, limit, after],
      (tables, tenantId, filter, now, limit, after) =>
        newestFirst(
          tables.memories.where(
            (one) => one.tenantId === tenantId && isUnexpired(one, now) && matchesFilter(one, filter),
          ),
          (one) => one,
          limit,
          after,
        ),
    ),

  find: (tenantId, ids, now) =>
    session.read('memories.find', [tenantId, ids, now], (tables, tenantId, ids, now) =>
      tables.memories.where((one) => ids.includes(one.id) && one.tenantId === tenantId && isUnexpired(one, now)),
    ),

  adopt: (tenantId, id, adoption, idempotency) =>
    session.write(
      'memories.adopt',
      [tenantId, id, adoption, idempotency],
      (tables, tenantId, id, adoption, idempotency) => {
        const memory = tables.memories.get(id);
        if (memory?.tenantId !== tenantId || !isUnexpired(memory, adoption.at)) return null;
        const adopted = rowOf(columns, { ...memory, adoption });
        tables.memories.set(id, adopted);
        putIdempotency(tables, idempotency);
        return adopted;
      },
    ),

  delete: (tenantId, id, now) =>
    session.write('memories.delete', [tenantId, id, now], (tables, tenantId, id, now) => {
      const memory = tables.memories.get(id);
      return memory?.tenantId === tenantId && isUnexpired(memory, now) && tables.memories.delete(id);
    }),
});
