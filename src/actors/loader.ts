import type { Uuid } from '../domain/values.ts';
import type { ActorKind } from '../machines/outputs.ts';
import type { ActorStore, StoredActor } from '../store/contract.ts';

interface Waiting {
  resolve(stored: StoredActor | null): void;
  reject(error: Error): void;
}

const MOST_AT_ONCE = 1_000;

/** Joins the loads that one tick of the event loop asks for into one query a kind. */
export class Loader {
  private readonly store: ActorStore;
  private readonly waiting = new Map<ActorKind, Map<Uuid, Waiting[]>>();

  constructor(store: ActorStore) {
    this.store = store;
  }

  load(kind: ActorKind, id: Uuid): Promise<StoredActor | null> {
    return new Promise((resolve, reject) => {
      let byId = this.waiting.get(kind);
      if (!byId) {
        byId = new Map();
        this.waiting.set(kind, byId);
        setImmediate(() => this.flush(kind));
      }
      const others = byId.get(id);
      if (others) others.push({ resolve, reject });
      else byId.set(id, [{ resolve, reject }]);
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

  private async fetch(kind: ActorKind, entries: [Uuid, Waiting[]][]): Promise<void> {
    try {
      const rows = await this.store.load(
        kind,
        entries.map(([id]) => id),
      );
      const found = new Map(rows.map((row) => [row.ref.id, row]));
      for (const [id, waiters] of entries) for (const waiter of waiters) waiter.resolve(found.get(id) ?? null);
    } catch (error) {
      for (const [, waiters] of entries) for (const waiter of waiters) waiter.reject(error as Error);
    }
  }
}
