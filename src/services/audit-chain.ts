import { setTimeout as pause } from 'node:timers/promises';
import { blockHash, extendDigest, GENESIS_HASH, headText } from '../domain/audit-chain.ts';
import type { Log } from '../domain/log.ts';
import { NIL_UUID } from '../domain/uuid.ts';
import type { EpochMs, Milliseconds, Uuid } from '../domain/values.ts';
import type { AuditBlock, ChainedEntry, ChainPlace, ChainState } from '../store/contract/audit-chain.ts';
import { type Store, StoreUnavailable } from '../store/contract.ts';

const MAX_BLOCK_ENTRIES = 1_000;
const MAX_TENANTS = 500;
const MAX_BLOCKS = 100;
/** How long sealing and verifying wait for transactions that were running when they began. */
const defaultWaits = { sealMs: 30_000, verifyMs: 3_000 };
const SETTLED_PAUSE_MS = 25;
/** Entries and blocks that one verification examines; the caller continues from its end. */
const MAX_VERIFIED_ENTRIES = 20_000;
const MAX_VERIFIED_BLOCKS = 500;

export interface ChainReport {
  /** What is wrong, or null. */
  problem: string | null;
  /** Blocks and entries that were verified. */
  blocks: number;
  entries: number;
  /** Blocks of which only the hashes were verified, because retention has deleted entries of them. */
  expired: number;
  /** End of the chain, `<sequence>:<hash>`; null if nothing is sealed. */
  head: string | null;
  /** Time of the newest sealed entry. */
  sealedTo: EpochMs | null;
  /** Entries after it, at most 1,000. */
  unsealed: number;
  /** Where to continue; null at the end of the chain. */
  next: string | null;
}

/** Seals audited entries into blocks, and verifies them. */
export class AuditChain {
  readonly #store: Pick<Store, 'auditChain'>;
  readonly #log: Log;
  readonly #waits: typeof defaultWaits;

  constructor(store: Pick<Store, 'auditChain'>, log: Log, waits = defaultWaits) {
    this.#store = store;
    this.#log = log;
    this.#waits = waits;
  }

  /** Seals what all tenants and the service have written; entries of running transactions are sealed the next time. */
  async sealAll(): Promise<void> {
    const { auditChain } = this.#store;
    const horizon = await this.#horizon(this.#waits.sealMs);
    if (horizon === null) {
      this.#log.warn({ waited_ms: this.#waits.sealMs }, 'audit not sealed: a transaction on the server has not ended');
      return;
    }
    await this.#sealLogged(null, horizon);
    for (let after: Uuid | null = NIL_UUID; after !== null; ) {
      const page: Awaited<ReturnType<typeof auditChain.unsealedTenants>> = await auditChain.unsealedTenants(
        after,
        MAX_TENANTS,
      );
      for (const tenantId of page.tenants) await this.#sealLogged(tenantId, horizon);
      after = page.next;
    }
  }

  /**
   * Seals the chain of a tenant, or of the service, and verifies it after `from`. At most 500 blocks and, by whole blocks,
   * 20,000 entries; the report says where to continue.
   */
  async verify(tenantId: Uuid | null, from: Pick<ChainPlace, 'sequence' | 'hash'> | null): Promise<ChainReport> {
    const horizon = await this.#horizon(this.#waits.verifyMs);
    if (horizon !== null) await this.#seal(tenantId, horizon);
    const state = await this.#store.auditChain.state(tenantId);
    const verification = new Verification(this.#store, tenantId, state);
    const report = await verification.run(from);
    const unsealedAfter = state.head?.position ?? state.removed.position;
    const unsealed = await this.#store.auditChain.entries(
      tenantId,
      unsealedAfter,
      Number.MAX_SAFE_INTEGER,
      MAX_BLOCK_ENTRIES,
    );
    return {
      ...report,
      head: state.head && headText(state.head),
      sealedTo: state.last?.lastAt ?? null,
      unsealed: unsealed.length,
    };
  }

  /** A position up to which no entry can be added any more; null if transactions that can have not ended in time. */
  async #horizon(waitMs: Milliseconds): Promise<number | null> {
    const { auditChain } = this.#store;
    const { position, transaction } = await auditChain.mark();
    for (const until = performance.now() + waitMs; ; ) {
      if (await auditChain.isSettled(transaction)) return position;
      if (performance.now() >= until) return null;
      await pause(SETTLED_PAUSE_MS, undefined, { ref: false });
    }
  }

  /** Entries of one tenant that cannot be sealed do not keep those of others. */
  async #sealLogged(tenantId: Uuid | null, horizon: number): Promise<void> {
    try {
      await this.#seal(tenantId, horizon);
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      this.#log.error({ err: error, tenant_id: tenantId }, 'audit of a tenant not sealed');
    }
  }

  async #seal(tenantId: Uuid | null, horizon: number): Promise<void> {
    const { auditChain } = this.#store;
    for (;;) {
      const state = await auditChain.state(tenantId);
      const end = endOf(state);
      if (end === null) {
        this.#log.error({ tenant_id: tenantId }, 'audit chain damaged; entries are not sealed');
        return;
      }
      const entries = await auditChain.entries(tenantId, end.position, horizon, MAX_BLOCK_ENTRIES);
      if (entries.length === 0) return;
      const added = await auditChain.seal(tenantId, blockOf(tenantId, end, entries));
      if (!added || entries.length < MAX_BLOCK_ENTRIES) return;
    }
  }
}

/** The end of the chain; null if the head and the blocks contradict each other. */
function endOf({ head, last, removed }: ChainState): ChainPlace | null {
  const end = last ?? removed;
  if (head === null) return end.sequence === 0 ? end : null;
  return head.sequence === end.sequence && head.hash === end.hash && head.position === end.position ? end : null;
}

export function blockOf(tenantId: Uuid | null, before: ChainPlace, entries: readonly ChainedEntry[]): AuditBlock {
  const header = {
    sequence: before.sequence + 1,
    position: entries.at(-1)?.position ?? before.position,
    entries: entries.length,
    firstAt: Math.min(...entries.map(({ at }) => at)),
    lastAt: Math.max(...entries.map(({ at }) => at)),
    digest: digestOf(entries),
    previous: before.hash,
  };
  return { ...header, hash: blockHash({ tenantId, ...header }) };
}

const digestOf = (entries: readonly ChainedEntry[]): string =>
  entries.reduce((digest, { position, content }) => extendDigest(digest, position, content), GENESIS_HASH);

type BlocksReport = Pick<ChainReport, 'problem' | 'blocks' | 'entries' | 'expired' | 'next'>;

/** One pass over the blocks of a chain. */
class Verification {
  readonly #store: Pick<Store, 'auditChain'>;
  readonly #tenantId: Uuid | null;
  readonly #state: ChainState;
  #blocks = 0;
  #entries = 0;
  #expired = 0;

  constructor(store: Pick<Store, 'auditChain'>, tenantId: Uuid | null, state: ChainState) {
    this.#store = store;
    this.#tenantId = tenantId;
    this.#state = state;
  }

  async run(from: Pick<ChainPlace, 'sequence' | 'hash'> | null): Promise<BlocksReport> {
    const start = await this.#startAt(from);
    if (typeof start === 'string') return this.#report(start);
    let place = start;
    for (;;) {
      const blocks = await this.#store.auditChain.blocks(this.#tenantId, place.sequence, MAX_BLOCKS);
      for (const block of blocks) {
        if (block.sequence !== place.sequence + 1) place = await this.#removedAfter(place);
        const problem = await this.#problemOf(block, place);
        if (problem !== null) return this.#report(problem);
        place = block;
        if (this.#entries >= MAX_VERIFIED_ENTRIES || this.#blocks + this.#expired >= MAX_VERIFIED_BLOCKS)
          return this.#report(null, place);
      }
      if (blocks.length < MAX_BLOCKS) return this.#report(this.#endProblem(place));
    }
  }

  /** The place to verify after, or what is wrong with it. */
  async #startAt(from: Pick<ChainPlace, 'sequence' | 'hash'> | null): Promise<ChainPlace | string> {
    const { removed } = this.#state;
    if (from === null || from.sequence === 0) return removed;
    if (from.sequence < removed.sequence)
      return `Block ${from.sequence} is no longer stored, so that the head cannot be compared: use a newer one.`;
    const [block] =
      from.sequence === removed.sequence
        ? [removed]
        : await this.#store.auditChain.blocks(this.#tenantId, from.sequence - 1, 1);
    if (block?.sequence !== from.sequence)
      return `The chain ends before block ${from.sequence}: blocks and entries were removed at its end.`;
    return block.hash === from.hash
      ? block
      : `Block ${from.sequence} does not have the hash that you sent: the chain was written again.`;
  }

  /** What retention has deleted after a place since the verification began. */
  async #removedAfter(place: ChainPlace): Promise<ChainPlace> {
    const { removed } = await this.#store.auditChain.state(this.#tenantId);
    return removed.sequence > place.sequence ? removed : place;
  }

  async #problemOf(block: AuditBlock, before: ChainPlace): Promise<string | null> {
    const { sequence, hash } = block;
    if (sequence !== before.sequence + 1) return `Block ${before.sequence + 1} is missing.`;
    if (block.previous !== before.hash) return `Block ${sequence} does not follow block ${before.sequence}.`;
    if (blockHash({ ...block, tenantId: this.#tenantId }) !== hash) return `Block ${sequence} was changed.`;
    if (block.firstAt < this.#state.expiredBefore) {
      this.#expired += 1;
      return null;
    }
    const limit = block.entries + 1;
    const entries = await this.#store.auditChain.entries(this.#tenantId, before.position, block.position, limit);
    if (entries.length === block.entries && digestOf(entries) === block.digest) {
      this.#blocks += 1;
      this.#entries += entries.length;
      return null;
    }
    // Retention may have begun to delete it meanwhile.
    const { expiredBefore } = await this.#store.auditChain.state(this.#tenantId);
    if (block.firstAt < expiredBefore) {
      this.#expired += 1;
      return null;
    }
    const [first, last] = [new Date(block.firstAt).toISOString(), new Date(block.lastAt).toISOString()];
    return `Entries of block ${sequence} were changed, added or removed. It was sealed with ${block.entries} entries from ${first} to ${last}, and has ${Math.min(entries.length, limit)}${entries.length === limit ? ' or more' : ''}.`;
  }

  #endProblem(end: ChainPlace): string | null {
    const { head } = this.#state;
    if (head === null) return end.sequence === 0 ? null : 'The head of the chain is missing.';
    // Another process may have sealed more meanwhile.
    if (head.sequence > end.sequence) return `Blocks ${end.sequence + 1} to ${head.sequence} are missing.`;
    return head.sequence < end.sequence || head.hash === end.hash
      ? null
      : `Block ${end.sequence} is not the head of the chain.`;
  }

  #report(problem: string | null, next: ChainPlace | null = null): BlocksReport {
    return {
      ...{ problem, blocks: this.#blocks, entries: this.#entries, expired: this.#expired },
      next: next && headText(next),
    };
  }
}
