import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Lease } from '../../domain/lease.ts';
import type { Json, Uuid } from '../../domain/values.ts';
import type { ActorKind, ActorRef } from '../../machines/outputs.ts';
import {
  type ActorCommit,
  type ActorStore,
  type BatchCommit,
  CommitUnknown,
  type StoredActor,
  StoreUnavailable,
} from '../../store/contract.ts';
import { LeaseExpired } from '../lease-expired.ts';
import { addressOf } from '../live-actor.ts';

const FIRST_RETRY_MS = 25;
const LAST_RETRY_MS = 500;

/**
 * Has turns kept. Where the connection is lost in COMMIT nobody knows whether it happened; the same turn is then asked for
 * again until there is an answer: the fence of versions lets it happen once, and what is stored tells our own earlier try
 * from a rival's.
 */
export class InDoubtCommits {
  private readonly store: ActorStore;
  private readonly lease: Lease;
  private readonly timeoutMs: number;
  private stopped = false;

  constructor(store: ActorStore, lease: Lease, timeoutMs: number) {
    this.store = store;
    this.lease = lease;
    this.timeoutMs = timeoutMs;
  }

  /**
   * Answers the actors of whom nothing was kept because somebody else was first. Throws `CommitUnknown` when the store
   * stays away; `unanswered` is told of each try that was.
   */
  async commitBatch(batch: BatchCommit, onNoAnswer: () => void): Promise<ActorRef[]> {
    const until = performance.now() + this.timeoutMs;
    try {
      return (await this.tryCommit(batch)).lost;
    } catch (error) {
      if (!(error instanceof CommitUnknown)) throw error;
      return this.retryUntilKnown(batch, error, { until, onNoAnswer });
    }
  }

  /** Asks no more. */
  stop(): void {
    this.stopped = true;
  }

  private tryCommit(batch: BatchCommit): Promise<{ lost: ActorRef[] }> {
    return this.lease.valid() ? this.store.commit(batch) : Promise.reject(new LeaseExpired());
  }

  private async retryUntilKnown(
    batch: BatchCommit,
    unknown: CommitUnknown,
    { until, onNoAnswer }: { until: number; onNoAnswer: () => void },
  ): Promise<ActorRef[]> {
    for (let wait = FIRST_RETRY_MS; ; wait = Math.min(2 * wait, LAST_RETRY_MS)) {
      onNoAnswer();
      if (this.stopped || performance.now() + wait > until) throw unknown;
      await pause(wait);
      if (this.stopped) throw unknown;
      try {
        return await this.lostToOthers(batch, (await this.tryCommit(batch)).lost);
      } catch (error) {
        if (!(error instanceof CommitUnknown || error instanceof StoreUnavailable)) throw error;
      }
    }
  }

  /** Those of `lost` whose row is not what this turn would have made of it. */
  private async lostToOthers({ actors }: BatchCommit, lost: readonly ActorRef[]): Promise<ActorRef[]> {
    if (lost.length === 0) return [];
    const stored = await this.loadStored(lost);
    const ours = new Map(actors.map((commit) => [addressOf(commit.ref), commit]));
    return lost.filter((ref) => !matchesStored(ours.get(addressOf(ref)), stored.get(addressOf(ref))));
  }

  private async loadStored(refs: readonly ActorRef[]): Promise<Map<string, StoredActor>> {
    const byKind = new Map<ActorKind, Uuid[]>();
    for (const { kind, id } of refs) byKind.set(kind, [...(byKind.get(kind) ?? []), id]);
    const loaded = await Promise.all([...byKind].map(([kind, ids]) => this.store.load(kind, ids)));
    return new Map(loaded.flat().map((actor) => [addressOf(actor.ref), actor]));
  }
}

function matchesStored(commit: ActorCommit | undefined, stored: StoredActor | undefined): boolean {
  if (commit === undefined) return false;
  // A device that was deleted is loaded no more.
  if (stored === undefined) return commit.columns.deleted === true;
  const { version, value, context, since } = stored;
  return (
    version === commit.version &&
    since === commit.since &&
    isDeepStrictEqual(value, asStored(commit.value)) &&
    isDeepStrictEqual(context, asStored(commit.context))
  );
}

const asStored = (json: Json): Json => JSON.parse(JSON.stringify(json));
