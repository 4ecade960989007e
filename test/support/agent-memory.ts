import { searchable } from '../../src/domain/full-text.ts';
import type { Memory } from '../../src/domain/memory.ts';
import type { Uuid } from '../../src/domain/values.ts';
import type { AgentMemoryStore } from '../../src/store/contract/memories.ts';
import type { IdempotencyRow } from '../../src/store/contract.ts';
import { pageOf } from './memory-pages.ts';

/** What agents remember, in a map; of a text it takes all words as they are. */
export function agentMemory(keep: (row: IdempotencyRow | null | undefined) => void): AgentMemoryStore {
  const held = new Map<Uuid, Memory>();
  const living = (tenantId: Uuid, now: number) =>
    [...held.values()].filter((one) => one.tenantId === tenantId && (one.expiresAt === null || one.expiresAt > now));
  const holds = ({ subject, content, tags }: Memory, text: string): boolean => {
    const words = searchable([subject, content, ...tags].join(' ')).split(' ');
    return searchable(text)
      .split(' ')
      .every((word) => words.includes(word));
  };
  return {
    async insert(memory, most, also) {
      const all = living(memory.tenantId, memory.createdAt);
      const oldest = all.find(({ kind }) => kind === 'observation');
      if (all.length >= most && oldest === undefined) return false;
      if (all.length >= most && oldest !== undefined) held.delete(oldest.id);
      held.set(memory.id, memory);
      keep(also);
      return true;
    },
    list: async (tenantId, { kind, subject, tag, text }, now, limit, after) => {
      const fitting = living(tenantId, now).filter(
        (one) =>
          (kind === undefined || one.kind === kind) &&
          (subject === undefined || one.subject === subject) &&
          (tag === undefined || one.tags.includes(tag)) &&
          (text === undefined || holds(one, text)),
      );
      return pageOf(fitting, (one) => one, limit, after);
    },
    delete: async (tenantId, id, now) => living(tenantId, now).some((one) => one.id === id) && held.delete(id),
  };
}
