import type { EpochMs, Json, Uuid } from '../../domain/values.ts';

/** An audited entry in the order in which it was written: an audit row, or a user's transition of an actor. */
export interface ChainedEntry {
  /** Ascending; assigned by the database when the row is written, to audit rows and journals alike. */
  position: number;
  at: EpochMs;
  /** Every column of the row but the tenant and the position. */
  content: Json;
}

/** Consecutive entries of a tenant, sealed together. */
export interface AuditBlock {
  /** From 1, without gaps. */
  sequence: number;
  /** Of its last entry. It contains the entries after the last one of the block before. */
  position: number;
  entries: number;
  /** Earliest and latest time of its entries. */
  firstAt: EpochMs;
  lastAt: EpochMs;
  /** SHA-256 chain over its entries, hex. */
  digest: string;
  /** Hash of the block before, hex. */
  previous: string;
  /** SHA-256 over the members above and the tenant, hex. */
  hash: string;
}

/** A place in a chain: after the block with this sequence number and hash; before the first block, 0 and zeros. */
export interface ChainPlace {
  sequence: number;
  position: number;
  hash: string;
}

export interface ChainState {
  /** The newest block, kept apart from the blocks; null if nothing was sealed. */
  head: ChainPlace | null;
  /** The newest block that is stored. */
  last: AuditBlock | null;
  /** The newest block that retention has deleted; before the first block if none was. */
  removed: ChainPlace;
  /** The same block as it was stored; null if none was deleted. */
  removedBlock: AuditBlock | null;
  /** Entries before this time may have been deleted by retention. */
  expiredBefore: EpochMs;
}

/**
 * The hash chains over audited entries, one for each tenant and, with the tenant null, one for the service. Entries that a
 * build wrote which does not assign positions are in no chain.
 */
export interface AuditChainStore {
  /**
   * The last position that was assigned. No entry up to it can be added any more when `isSettled` is true of the
   * transaction.
   */
  mark(): Promise<{ position: number; transaction: string }>;
  /** Whether every transaction that has assigned a position up to that of the mark has ended. */
  isSettled(transaction: string): Promise<boolean>;
  /** Tenants of the page after `after`, by id, that have entries which are not sealed, and the end of the page. */
  unsealedTenants(after: Uuid, limit: number): Promise<{ tenants: Uuid[]; next: Uuid | null }>;
  state(tenantId: Uuid | null): Promise<ChainState>;
  /** The entries after a position, up to and including another one, in order. */
  entries(tenantId: Uuid | null, after: number, upTo: number, limit: number): Promise<ChainedEntry[]>;
  /** Blocks after a sequence number, in order. */
  blocks(tenantId: Uuid | null, after: number, limit: number): Promise<AuditBlock[]>;
  /** Adds a block if the chain ends where it begins; false if another process has added one. */
  seal(tenantId: Uuid | null, block: AuditBlock): Promise<boolean>;
}
