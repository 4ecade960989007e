import { setTimeout as pause } from 'node:timers/promises';
import { blockHash, type ChainHead, extendDigest, GENESIS_HASH, headText } from '../domain/audit-chain.ts';
import type { Clock } from '../domain/clock.ts';
import { DAY_MS } from '../domain/day.ts';
import { iso } from '../domain/iso-time.ts';
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
/** Retention may change a chain while it is verified: then it is verified again. */
const MAX_ATTEMPTS = 10;
/** Clocks that deleted and that verify may differ by this. */
const CLOCK_TOLERANCE_MS: Milliseconds = 3_600_000;
/** Limit of ECMAScript's `Date`. */
const MAX_DATE_MS = 8.64e15;

export interface ChainReport {
  /** What is wrong, or null. */
  problem: string | null;
  /** Blocks and entries that were verified. */
  blocks: number;
  entries: number;
  /** Blocks of which only the hashes were verified, because retention has deleted entries of them. */
  expired: number;
  /** End of the chain, `<sequence>:<hash>:<time in ms>`; null if nothing is sealed. */
  head: string | null;
  /** Time of the newest sealed entry. */
  sealedTo: EpochMs | null;
  /** Entries after it, at most 1,000. */
  unsealed: number;
  /** Where to continue; null at the end of the chain. */
  next: string | null;
}

export interface AuditChainParts {
  store: Pick<Store, 'auditChain'>;
  clock: Clock;
  log: Log;
  /** How long entries are kept. */
  retentionDays: number;
}

/** Seals audited entries into blocks, and verifies them. */
export class AuditChain {
  readonly #store: Pick<Store, 'auditChain'>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #retentionDays: number;
  readonly #waits: typeof defaultWaits;

  constructor({ store, clock, log, retentionDays }: AuditChainParts, waits = defaultWaits) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#retentionDays = retentionDays;
    this.#waits = waits;
  }

  /**
   * Seals what all tenants and the service have written; entries of running transactions are sealed the next time. Waits no
   * longer, and seals no further tenant, if `isStopped`.
   */
  async sealAll(isStopped: () => boolean = () => false): Promise<void> {
    const { auditChain } = this.#store;
    const horizon = await this.#horizon(this.#waits.sealMs, isStopped);
    if (isStopped()) return;
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
      for (const tenantId of page.tenants) {
        if (isStopped()) return;
        await this.#sealLogged(tenantId, horizon);
      }
      after = isStopped() ? null : page.next;
    }
  }

  /**
   * Seals the chain of a tenant, or of the service, and verifies it after `from`. At most 500 blocks and, by whole blocks,
   * 20,000 entries; the report says where to continue. No block with entries of the last `retentionDays` may be deleted.
   */
  async verify(
    tenantId: Uuid | null,
    from: ChainHead | null,
    retentionDays: number = this.#retentionDays,
  ): Promise<ChainReport> {
    const horizon = await this.#horizon(this.#waits.verifyMs);
    if (horizon !== null) await this.#seal(tenantId, horizon);
    const { auditChain } = this.#store;
    const keptSince = this.#clock.now() - retentionDays * DAY_MS;
    for (let attempts = 1; ; attempts++) {
      const state = await auditChain.state(tenantId);
      const report = await new Verification(this.#store, { tenantId, state, keptSince }).run(from);
      if (report.problem !== null && attempts < MAX_ATTEMPTS && (await this.#wasPruned(tenantId, state))) {
        await pause(SETTLED_PAUSE_MS, undefined, { ref: false });
        continue;
      }
      const { head, last, removed, removedBlock } = state;
      const unsealedAfter = head?.position ?? removed.position;
      const unsealed = await auditChain.entries(tenantId, unsealedAfter, Number.MAX_SAFE_INTEGER, MAX_BLOCK_ENTRIES);
      const sealedTo = (last ?? removedBlock)?.lastAt ?? null;
      return {
        ...report,
        head: head && headText({ ...head, lastAt: sealedTo }),
        sealedTo,
        unsealed: unsealed.length,
      };
    }
  }

  /** Whether retention has changed the chain since its state was read. */
  async #wasPruned(tenantId: Uuid | null, before: ChainState): Promise<boolean> {
    const { removed, expiredBefore } = await this.#store.auditChain.state(tenantId);
    return removed.sequence !== before.removed.sequence || expiredBefore !== before.expiredBefore;
  }

  /** A position up to which no entry can be added any more; null if transactions that can have not ended in time. */
  async #horizon(waitMs: Milliseconds, isStopped: () => boolean = () => false): Promise<number | null> {
    const { auditChain } = this.#store;
    const { position, transaction } = await auditChain.mark();
    for (const until = performance.now() + waitMs; ; ) {
      if (await auditChain.isSettled(transaction)) return position;
      if (performance.now() >= until || isStopped()) return null;
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

/** For any stored time: it may have been changed. */
const timeText = (at: EpochMs): string => (Math.abs(at) <= MAX_DATE_MS ? iso(at) : `${at} ms`);

type BlocksReport = Pick<ChainReport, 'problem' | 'blocks' | 'entries' | 'expired' | 'next'>;

interface VerifiedChain {
  tenantId: Uuid | null;
  state: ChainState;
  /** Blocks with entries since then are not deleted by retention. */
  keptSince: EpochMs;
}

/** One pass over the blocks of a chain. If retention deletes during the pass, it can report a problem that does not exist. */
class Verification {
  readonly #store: Pick<Store, 'auditChain'>;
  readonly #tenantId: Uuid | null;
  readonly #state: ChainState;
  readonly #keptSince: EpochMs;
  #blocks = 0;
  #entries = 0;
  #expired = 0;

  constructor(store: Pick<Store, 'auditChain'>, { tenantId, state, keptSince }: VerifiedChain) {
    this.#store = store;
    this.#tenantId = tenantId;
    this.#state = state;
    this.#keptSince = keptSince;
  }

  async run(from: ChainHead | null): Promise<BlocksReport> {
    const removal = this.#removalProblem(this.#state);
    if (removal !== null) return this.#report(removal);
    const start = await this.#startAt(from);
    if (typeof start === 'string') return this.#report(start);
    let place = start;
    for (;;) {
      const blocks = await this.#store.auditChain.blocks(this.#tenantId, place.sequence, MAX_BLOCKS);
      for (const block of blocks) {
        const problem = await this.#problemOf(block, place);
        if (problem !== null) return this.#report(problem);
        place = block;
        if (this.#entries >= MAX_VERIFIED_ENTRIES || this.#blocks + this.#expired >= MAX_VERIFIED_BLOCKS)
          return this.#report(null, block);
      }
      if (blocks.length < MAX_BLOCKS) return this.#report(this.#endProblem(place));
    }
  }

  /** A problem with the stored header of the newest deleted block, or null. */
  #removalProblem({ removed, removedBlock }: ChainState): string | null {
    const { sequence, position, hash } = removed;
    if (sequence === 0) return null;
    if (removedBlock === null) return `The header of block ${sequence}, the newest deleted one, is missing.`;
    const isStored = removedBlock.sequence === sequence && removedBlock.position === position;
    if (!isStored || blockHash({ ...removedBlock, tenantId: this.#tenantId }) !== hash)
      return `The header of block ${sequence}, the newest deleted one, was changed.`;
    return this.#isKept(removedBlock.lastAt) ? this.#removedEarly(sequence, removedBlock.lastAt) : null;
  }

  #isKept(lastAt: EpochMs): boolean {
    return lastAt >= this.#keptSince + CLOCK_TOLERANCE_MS;
  }

  #removedEarly(sequence: number, lastAt: EpochMs): string {
    return `Block ${sequence} was deleted before its entries expired: the newest one is of ${timeText(lastAt)}, and entries since ${timeText(this.#keptSince)} are kept.`;
  }

  /** The place to verify after, or what is wrong with it. */
  async #startAt(from: ChainHead | null): Promise<ChainPlace | string> {
    const { removed } = this.#state;
    if (from === null || from.sequence === 0) return removed;
    const { sequence, hash, lastAt, continues } = from;
    if (sequence < removed.sequence) {
      // Retention has gone on between two parts.
      if (continues) return removed;
      return lastAt !== null && this.#isKept(lastAt)
        ? this.#removedEarly(sequence, lastAt)
        : `Block ${sequence} is no longer stored, so that the head cannot be compared: use a newer one.`;
    }
    const [block] =
      sequence === removed.sequence ? [removed] : await this.#store.auditChain.blocks(this.#tenantId, sequence - 1, 1);
    if (block?.sequence !== sequence)
      return `The chain ends before block ${sequence}: blocks and entries were removed at its end.`;
    return block.hash === hash
      ? block
      : `Block ${sequence} does not have the hash that you sent: the chain was written again.`;
  }

  async #problemOf(block: AuditBlock, before: ChainPlace): Promise<string | null> {
    const { sequence, hash } = block;
    if (sequence !== before.sequence + 1) return `Block ${before.sequence + 1} is missing.`;
    if (block.previous !== before.hash) return `Block ${sequence} does not follow block ${before.sequence}.`;
    if (blockHash({ ...block, tenantId: this.#tenantId }) !== hash) return `Block ${sequence} was changed.`;
    if (block.firstAt < this.#state.expiredBefore && !this.#isKept(block.firstAt)) {
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
    const [first, last] = [timeText(block.firstAt), timeText(block.lastAt)];
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

  #report(problem: string | null, next: AuditBlock | null = null): BlocksReport {
    return {
      ...{ problem, blocks: this.#blocks, entries: this.#entries, expired: this.#expired },
      next: next && headText({ ...next, continues: true }),
    };
  }
}
