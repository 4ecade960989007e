import type { Position } from '../../domain/cursor.ts';
import type { Memory, MemoryAuthor, MemoryAuthority, MemoryKind } from '../../domain/memory.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { Page } from './page.ts';

export interface MemoryFilter {
  kind?: MemoryKind;
  subject?: string;
  tag?: string;
  /** Full-text query over subject, content and tags: required terms, `"a phrase"`, `or`, `-not`. */
  text?: string;
  /** Only suggestions, or only other memories (`isSuggestion`). */
  suggestion?: boolean;
  /** Without the memories of these (`memoryAuthorOf`). */
  notBy?: readonly MemoryAuthor[];
}

/** Memories that agents store. An expired one is treated as absent, whether it was pruned or not. */
export interface AgentMemoryStore {
  /**
   * Suggestions are counted apart from other memories. If the tenant already has `most` of those, deletes expired ones, or else
   * the oldest suggestions for a suggestion, and the oldest observations for another memory. False if there are not enough: nothing was stored.
   */
  insert(memory: Memory, most: number, idempotency?: IdempotencyRow | null): Promise<boolean>;
  /** Newest first. */
  list(tenantId: Uuid, filter: MemoryFilter, now: EpochMs, limit: number, after?: Position): Promise<Page<Memory>>;
  /** Those of these memories that exist, in any order. */
  find(tenantId: Uuid, ids: readonly Uuid[], now: EpochMs): Promise<Memory[]>;
  /** Replaces an earlier adoption; null if the memory does not exist. */
  adopt(
    tenantId: Uuid,
    id: Uuid,
    adoption: MemoryAuthority & { at: EpochMs },
    idempotency?: IdempotencyRow | null,
  ): Promise<Memory | null>;
  /** False if it does not exist. */
  delete(tenantId: Uuid, id: Uuid, now: EpochMs): Promise<boolean>;
}
