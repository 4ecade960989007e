import type { Log } from '../domain/log.ts';
import type { Milliseconds, Uuid } from '../domain/values.ts';
import type { Cluster } from '../store/contract/cluster.ts';
import type { ShardStatuses } from './shard-statuses.ts';

export interface HandOverTiming {
  /** Pause after a shard that could not be closed, when the process ends. */
  poll: Milliseconds;
  /** How long a shard waits for its requests in progress before it is handed over. */
  requests: Milliseconds;
  /** Pause after a shard that could not be closed. */
  retry: Milliseconds;
}

interface HandOverParts {
  cluster: Cluster;
  shards: ShardStatuses;
  log: Log;
  timing: HandOverTiming;
  /** Ends what depends on the shards. False, with the shards still open, if that takes long. */
  close(shards: ReadonlySet<number>): Promise<boolean>;
  /** Called when the owner of these shards has changed or is unknown, before their status changes. */
  onHandedOver(shards: readonly number[]): void;
  /** Called when an attempt has ended and the next one can start. */
  onEnd(): void;
}

/** A shard that stays busy is tried again after up to this many times `retry`. */
const MAX_RETRY_FACTOR = 16;
/** After so many attempts a shard is handed over although requests have not ended: they are refused with 503. */
const PATIENT_ATTEMPTS = 5;
/** Shards that are closed and handed over together. */
const MOVED_TOGETHER = 16;

/**
 * Hands over shards of this node that another node should own, some at a time. Shards with requests that do not end, or
 * that cannot be closed, stay in use and are tried again later; a shard is kept by requests for a few attempts only.
 */
export class ShardHandOver {
  readonly #parts: HandOverParts;
  #moving: Promise<void> | null = null;
  /** Monotonic milliseconds before which a busy shard is not closed again. */
  readonly #moveAfter = new Map<number, number>();
  /** Shards that could not be closed, with the number of attempts. */
  readonly #busy = new Map<number, number>();
  #hurried = false;
  #ended = 0;
  #handedOver = 0;

  constructor(parts: HandOverParts) {
    this.#parts = parts;
  }

  /** The attempt in progress, which never rejects; null if there is none. */
  get moving(): Promise<void> | null {
    return this.#moving;
  }

  /** Number of attempts that have ended in a change of owners or in an error. Owners read before are outdated. */
  get ended(): number {
    return this.#ended;
  }

  /** Number of shards handed over. */
  get handedOver(): number {
    return this.#handedOver;
  }

  /** Busy shards are tried again at once, and from now on at each poll: the process ends. */
  hurry(): void {
    this.#hurried = true;
    this.#moveAfter.clear();
  }

  /** Starts to hand over open shards. `placed`: the node that should own each shard; null if none can. */
  moveMisplaced(placed: readonly (Uuid | null)[]): void {
    if (this.#moving !== null) return;
    const { shards, cluster } = this.#parts;
    const now = performance.now();
    const misplaced = shards
      .withStatus('open')
      .filter((shard) => (placed[shard] ?? cluster.self) !== cluster.self && (this.#moveAfter.get(shard) ?? 0) <= now);
    const [first] = misplaced;
    if (first === undefined) return;
    const quiet = misplaced.filter((shard) => !this.#busy.has(shard));
    const moved = quiet.length > 0 ? quiet.slice(0, MOVED_TOGETHER) : [first];
    this.#moving = this.#move(moved, placed).finally(() => {
      this.#moving = null;
      this.#parts.onEnd();
    });
  }

  async #move(shards: readonly number[], placed: readonly (Uuid | null)[]): Promise<void> {
    this.#parts.shards.set(shards, 'closing');
    const idle = await this.#whenRequestsEnd(shards);
    const isReady = (shard: number) => idle.includes(shard) || (this.#busy.get(shard) ?? 0) >= PATIENT_ATTEMPTS;
    const ready = shards.filter(isReady);
    this.#keepOpen(shards.filter((shard) => !isReady(shard)));
    if (ready.length > 0 && !(await this.#handOver(ready, placed))) this.#keepOpen(ready);
  }

  /** The shards without requests in progress, once that is all of them, or after a time. */
  async #whenRequestsEnd(shards: readonly number[]): Promise<number[]> {
    const { shards: local, timing } = this.#parts;
    const until = performance.now() + timing.requests;
    for (;;) {
      const idle = shards.filter((shard) => !local.hasRequests(shard));
      const left = until - performance.now();
      if (idle.length === shards.length || left <= 0) return idle;
      await Promise.race([local.changed, pauseFor(left)]);
    }
  }

  /** The shards are used again; each of them is tried alone the next time, as one of them has kept the others. */
  #keepOpen(shards: readonly number[]): void {
    if (shards.length === 0) return;
    const { timing } = this.#parts;
    const now = performance.now();
    for (const shard of shards) {
      const attempts = this.#busy.get(shard) ?? 0;
      this.#busy.set(shard, attempts + 1);
      const factor = attempts === 0 ? 0 : Math.min(2 ** (attempts - 1), MAX_RETRY_FACTOR);
      this.#moveAfter.set(shard, now + (this.#hurried ? timing.poll : factor * timing.retry));
    }
    this.#parts.shards.set(shards, 'open');
    this.#parts.log.warn({ shards }, 'shard coordinator: shards are busy; handing them over later');
  }

  /** False if the shards could not be closed. */
  async #handOver(shards: readonly number[], placed: readonly (Uuid | null)[]): Promise<boolean> {
    const { cluster, log } = this.#parts;
    const began = performance.now();
    try {
      if (!(await this.#parts.close(new Set(shards)))) return false;
      for (const [to, ofNode] of Map.groupBy(shards, (shard) => placed[shard] as Uuid)) {
        await cluster.handOver(ofNode, to);
        this.#handedOver += ofNode.length;
      }
      log.info({ shards: shards.length, ms: since(began) }, 'shard coordinator: shards handed over');
    } catch (error) {
      // A shard that is still this node's is opened again.
      log.warn({ err: error, shards: shards.length }, 'shard coordinator: shards not handed over');
    }
    this.#ended += 1;
    for (const shard of shards) {
      this.#moveAfter.delete(shard);
      this.#busy.delete(shard);
    }
    this.#parts.onHandedOver(shards);
    this.#parts.shards.set(shards, 'absent');
    return true;
  }
}

/** Whole milliseconds since `began`, a time of `performance.now()`. */
export const since = (began: number): number => Math.round(performance.now() - began);

/** Does not keep the process running. */
export const pauseFor = (ms: Milliseconds): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, Math.max(0, ms)).unref();
  });
