import { setTimeout as pause } from 'node:timers/promises';
import { type BackoffLimits, backoffDelay } from '../domain/backoff.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { Uuid } from '../domain/values.ts';
import type { ActorKind, ActorRef } from '../machines/outputs.ts';
import { type ActorStore, type StoredActor, StoreUnavailable } from '../store/contract.ts';
import { addressOf } from './live-actor.ts';

interface LoadCallbacks {
  resolve(stored: StoredActor | null): void;
  reject(error: Error): void;
}

/** A request for an actor. `isWanted` is checked before each retry while the store is unavailable. */
interface LoadRequest extends LoadCallbacks {
  isWanted(): boolean;
}

/** One query for all requests for an actor. */
interface SharedLoad {
  requests: LoadRequest[];
  generation: number;
}

const MAX_BATCH = 1_000;
const RETRY: BackoffLimits = { firstMs: 25, maxMs: 500 };

/**
 * Actor loader: shares one load among all requests for an actor, retries while the store is unavailable and a request
 * is still wanted, and batches the requests of one tick of the event loop into one query per kind.
 */
export class Loader {
  readonly #store: ActorStore;
  /** A change of it means that the row may have been changed by another node since a query began. */
  readonly #generation: () => number;
  readonly #loads = new Map<string, SharedLoad>();
  readonly #queued = new Map<ActorKind, Map<Uuid, LoadCallbacks>>();

  constructor(store: ActorStore, generation: () => number = () => 0) {
    this.#store = store;
    this.#generation = generation;
  }

  sizes(): CollectionSizes {
    let queued = 0;
    for (const byId of this.#queued.values()) queued += byId.size;
    return { actor_loads: this.#loads.size, actor_loads_waiting: queued };
  }

  isLoading(ref: ActorRef): boolean {
    return this.#loads.size > 0 && this.#loads.has(addressOf(ref));
  }

  /** Null if the actor does not exist. */
  load(ref: ActorRef, isWanted: () => boolean): Promise<StoredActor | null> {
    return new Promise((resolve, reject) => {
      const request: LoadRequest = { isWanted, resolve, reject };
      const load = this.#loads.get(addressOf(ref));
      if (load?.generation === this.#generation()) load.requests.push(request);
      else void this.#loadWithRetry(ref, request);
    });
  }

  async #loadWithRetry(ref: ActorRef, first: LoadRequest): Promise<void> {
    const address = addressOf(ref);
    const load: SharedLoad = { requests: [first], generation: this.#generation() };
    this.#loads.set(address, load);
    for (let failures = 1; load.requests.length > 0; failures++) {
      try {
        const stored = await this.#enqueue(ref);
        this.#end(address, load);
        for (const { resolve } of load.requests) resolve(stored);
        return;
      } catch (error) {
        const stillWanted: LoadRequest[] = [];
        for (const request of load.requests) {
          if (error instanceof StoreUnavailable && request.isWanted()) stillWanted.push(request);
          else request.reject(error as Error);
        }
        load.requests = stillWanted;
      }
      if (load.requests.length > 0) await pause(backoffDelay(failures, RETRY));
    }
    this.#end(address, load);
  }

  /** A later load of the same actor stays. */
  #end(address: string, load: SharedLoad): void {
    if (this.#loads.get(address) === load) this.#loads.delete(address);
  }

  #enqueue({ kind, id }: ActorRef): Promise<StoredActor | null> {
    return new Promise((resolve, reject) => {
      let byId = this.#queued.get(kind);
      if (!byId) {
        byId = new Map();
        this.#queued.set(kind, byId);
        setImmediate(() => this.#flush(kind));
      }
      const queued = byId.get(id);
      byId.set(id, queued === undefined ? { resolve, reject } : both(queued, { resolve, reject }));
    });
  }

  #flush(kind: ActorKind): void {
    const byId = this.#queued.get(kind);
    this.#queued.delete(kind);
    if (!byId) return;
    const entries = [...byId];
    for (let start = 0; start < entries.length; start += MAX_BATCH) {
      void this.#fetch(kind, entries.slice(start, start + MAX_BATCH));
    }
  }

  async #fetch(kind: ActorKind, entries: [Uuid, LoadCallbacks][]): Promise<void> {
    try {
      const rows = await this.#store.load(
        kind,
        entries.map(([id]) => id),
      );
      const found = new Map(rows.map((row) => [row.ref.id, row]));
      for (const [id, { resolve }] of entries) resolve(found.get(id) ?? null);
    } catch (error) {
      for (const [, { reject }] of entries) reject(error as Error);
    }
  }
}

const both = (first: LoadCallbacks, second: LoadCallbacks): LoadCallbacks => ({
  resolve(stored) {
    first.resolve(stored);
    second.resolve(stored);
  },
  reject(error) {
    first.reject(error);
    second.reject(error);
  },
});
