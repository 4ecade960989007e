import { setTimeout as pause } from 'node:timers/promises';
import type { Uuid } from '../domain/values.ts';
import type { ActorKind, ActorRef } from '../machines/outputs.ts';
import { type ActorStore, type StoredActor, StoreUnavailable } from '../store/contract.ts';
import { addressOf } from './entity.ts';

interface Waiting {
  resolve(stored: StoredActor | null): void;
  reject(error: Error): void;
}

/** Whether somebody still waits for a load. */
type Wish = () => boolean;

const MOST_AT_ONCE = 1_000;
const AGAIN_MS = 100;

/**
 * Loads an actor once for all who ask for it, as long as any of them waits while the store is away. What one tick of the
 * event loop asks for is one query a kind.
 */
export class Loader {
  private readonly store: ActorStore;
  private readonly loads = new Map<string, { stored: Promise<StoredActor | null>; wishes: Wish[] }>();
  private readonly waiting = new Map<ActorKind, Map<Uuid, Waiting>>();

  constructor(store: ActorStore) {
    this.store = store;
  }

  /** Null where there is no such actor. */
  load(ref: ActorRef, wish: Wish): Promise<StoredActor | null> {
    const address = addressOf(ref);
    const load = this.loads.get(address);
    if (load) {
      load.wishes.push(wish);
      return load.stored;
    }
    const wishes = [wish];
    const stored = this.persist(ref, wishes).finally(() => this.loads.delete(address));
    this.loads.set(address, { stored, wishes });
    return stored;
  }

  private async persist(ref: ActorRef, wishes: readonly Wish[]): Promise<StoredActor | null> {
    for (;;) {
      try {
        return await this.next(ref);
      } catch (error) {
        if (!(error instanceof StoreUnavailable) || !wishes.some((wish) => wish())) throw error;
      }
      await pause(AGAIN_MS);
    }
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
