import { setTimeout as pause } from 'node:timers/promises';
import type { Sizes } from '../domain/sizes.ts';
import type { Uuid } from '../domain/values.ts';
import type { ActorKind, ActorRef } from '../machines/outputs.ts';
import { type ActorStore, type StoredActor, StoreUnavailable } from '../store/contract.ts';
import { addressOf } from './entity.ts';

interface Waiting {
  resolve(stored: StoredActor | null): void;
  reject(error: Error): void;
}

/** Who asked for an actor, and whether they still wait for it: asked while the store is away. */
interface Asking extends Waiting {
  wanted(): boolean;
}

const MOST_AT_ONCE = 1_000;
const AGAIN_MS = 100;

/**
 * Loads an actor once for all who ask for it, and while the store is away for each as long as they wait. What one tick of the
 * event loop asks for is one query a kind.
 */
export class Loader {
  private readonly store: ActorStore;
  private readonly loads = new Map<string, { asking: Asking[] }>();
  private readonly waiting = new Map<ActorKind, Map<Uuid, Waiting>>();

  constructor(store: ActorStore) {
    this.store = store;
  }

  sizes(): Sizes {
    let waiting = 0;
    for (const byId of this.waiting.values()) waiting += byId.size;
    return { actor_loads: this.loads.size, actor_loads_waiting: waiting };
  }

  isLoading(ref: ActorRef): boolean {
    return this.loads.size > 0 && this.loads.has(addressOf(ref));
  }

  /** Null where there is no such actor. */
  load(ref: ActorRef, wanted: () => boolean): Promise<StoredActor | null> {
    return new Promise((resolve, reject) => {
      const one: Asking = { wanted, resolve, reject };
      const load = this.loads.get(addressOf(ref));
      if (load) load.asking.push(one);
      else void this.persist(ref, one);
    });
  }

  private async persist(ref: ActorRef, first: Asking): Promise<void> {
    const address = addressOf(ref);
    const load = { asking: [first] };
    this.loads.set(address, load);
    while (load.asking.length > 0) {
      try {
        const stored = await this.next(ref);
        this.loads.delete(address);
        for (const { resolve } of load.asking) resolve(stored);
        return;
      } catch (error) {
        const waiting: Asking[] = [];
        for (const one of load.asking) {
          if (error instanceof StoreUnavailable && one.wanted()) waiting.push(one);
          else one.reject(error as Error);
        }
        load.asking = waiting;
      }
      if (load.asking.length > 0) await pause(AGAIN_MS);
    }
    this.loads.delete(address);
  }

  private next({ kind, id }: ActorRef): Promise<StoredActor | null> {
    return new Promise((resolve, reject) => {
      let byId = this.waiting.get(kind);
      if (!byId) {
        byId = new Map();
        this.waiting.set(kind, byId);
        setImmediate(() => this.flush(kind));
      }
      byId.set(id, { resolve, reject });
    });
  }

  private flush(kind: ActorKind): void {
    const byId = this.waiting.get(kind);
    this.waiting.delete(kind);
    if (!byId) return;
    const entries = [...byId];
    for (let start = 0; start < entries.length; start += MOST_AT_ONCE) {
      void this.fetch(kind, entries.slice(start, start + MOST_AT_ONCE));
    }
  }

  private async fetch(kind: ActorKind, entries: [Uuid, Waiting][]): Promise<void> {
    try {
      const rows = await this.store.load(
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
