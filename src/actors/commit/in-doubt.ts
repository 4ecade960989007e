import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { type BackoffLimits, backoffDelay } from '../../domain/backoff.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Json, Uuid } from '../../domain/values.ts';
import type { ActorKind, ActorRef } from '../../machines/outputs.ts';
import {
  type ActorCommit,
  type ActorStore,
  type CommitOptions,
  CommitUnknown,
  type StoredActor,
  StoreUnavailable,
} from '../../store/contract.ts';
import { LeaseExpired } from '../contract.ts';
import type { Deadlines, StillWaits } from '../deadlines.ts';
import { addressOf } from '../live-actor.ts';

const RETRY: BackoffLimits = { firstMs: 25, maxMs: 500 };

/**
 * In-doubt commits: commits batches, and resolves commits whose outcome is unknown because the connection was lost
 * during COMMIT. The same batch is retried until the store answers. The version check lets it apply at most once, and
 * comparing the stored rows distinguishes an earlier attempt of this process from another writer.
 */
export class InDoubtCommits {
  readonly #store: ActorStore;
  readonly #lease: Lease;
  readonly #deadlines: Deadlines;
  #stopped = false;

  constructor(store: ActorStore, lease: Lease, deadlines: Deadlines) {
    this.#store = store;
    this.#lease = lease;
    this.#deadlines = deadlines;
  }

  /**
   * Returns the actors whose commit lost to another writer. Throws `CommitUnknown` if the store stays unavailable.
   * `onNoAnswer` is called after each attempt without an answer.
   */
  async commitBatch(
    commits: readonly ActorCommit[],
    options: CommitOptions,
    onNoAnswer: () => void,
  ): Promise<ActorRef[]> {
    const stillWaits = this.#deadlines.deviceWaits();
    const tryCommit = async () => {
      if (!this.#lease.valid()) throw new LeaseExpired();
      return (await this.#store.commit(commits, options)).lost;
    };
    try {
      return await tryCommit();
    } catch (error) {
      if (!(error instanceof CommitUnknown)) throw error;
      const retry = async () => this.#lostToOthers(commits, await tryCommit());
      return this.#retryUntilKnown(retry, error, { stillWaits, onNoAnswer });
    }
  }

  /** Ends all retries. */
  stop(): void {
    this.#stopped = true;
  }

  async #retryUntilKnown(
    retry: () => Promise<ActorRef[]>,
    unknown: CommitUnknown,
    { stillWaits, onNoAnswer }: { stillWaits: StillWaits; onNoAnswer(): void },
  ): Promise<ActorRef[]> {
    for (let failures = 1; ; failures++) {
      onNoAnswer();
      const wait = backoffDelay(failures, RETRY);
      if (this.#stopped || !stillWaits(wait)) throw unknown;
      await pause(wait);
      if (this.#stopped) throw unknown;
      try {
        return await retry();
      } catch (error) {
        if (!(error instanceof CommitUnknown || error instanceof StoreUnavailable)) throw error;
      }
    }
  }

  /** Those of `lost` whose stored row differs from what this batch would have written. */
  async #lostToOthers(commits: readonly ActorCommit[], lost: readonly ActorRef[]): Promise<ActorRef[]> {
    if (lost.length === 0) return [];
    const stored = await this.#loadStored(lost);
    const ours = new Map(commits.map((commit) => [addressOf(commit.ref), commit]));
    return lost.filter((ref) => !matchesStored(ours.get(addressOf(ref)), stored.get(addressOf(ref))));
  }

  async #loadStored(refs: readonly ActorRef[]): Promise<Map<string, StoredActor>> {
    const byKind = new Map<ActorKind, Uuid[]>();
    for (const { kind, id } of refs) byKind.set(kind, [...(byKind.get(kind) ?? []), id]);
    const loaded = await Promise.all([...byKind].map(([kind, ids]) => this.#store.load(kind, ids)));
    return new Map(loaded.flat().map((actor) => [addressOf(actor.ref), actor]));
  }
}

function matchesStored(commit: ActorCommit | undefined, stored: StoredActor | undefined): boolean {
  if (commit === undefined) return false;
  // Deleted devices are not loaded.
  if (stored === undefined) return commit.columns.deleted === true;
  const { version, value, context, since } = stored;
  return (
    version === commit.version &&
    since === commit.since &&
    isDeepStrictEqual(value, asStored(commit.value)) &&
    isDeepStrictEqual(context, asStored({ ...commit.fixed, ...commit.live }))
  );
}

const asStored = (json: Json): Json => JSON.parse(JSON.stringify(json));
