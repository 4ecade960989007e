import type { Memory, MemoryKind } from '../../domain/memory.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { Page, Position } from './page.ts';

export interface MemoryFilter {
  kind?: MemoryKind;
  subject?: string;
  tag?: string;
  /** Full text, over subject, content and tags: words that must all be there, `"a phrase"`, `or`, `-not`. */
  text?: string;
}

/** What agents remember. One that has expired is not there, whether it was pruned or not. */
export interface AgentMemoryStore {
  /**
   * Where the tenant has `most` already, one that has expired makes room, else the oldest observation. False where neither
   * is there: nothing was kept.
   */
  insert(memory: Memory, most: number, also?: IdempotencyRow | null): Promise<boolean>;
  /** Newest first. */
  list(tenantId: Uuid, filter: MemoryFilter, now: EpochMs, limit: number, after?: Position): Promise<Page<Memory>>;
  /** False where it does not exist. */
  delete(tenantId: Uuid, id: Uuid, now: EpochMs): Promise<boolean>;
}
