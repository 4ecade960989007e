import type { Clock } from '../domain/clock.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { EpochMs, Milliseconds, Uuid } from '../domain/values.ts';

const POLL_MS: Milliseconds = 1_000;

/**
 * Timers that end the suspension of proposals; plans have their own timers. In memory only: after a restart, `opened`
 * is sent again for every context.
 */
export class SuspensionTimers {
  readonly #due = new Map<Uuid, EpochMs>();
  #timer: NodeJS.Timeout | null = null;
  readonly #clock: Clock;
  readonly #onDue: (id: Uuid) => void;

  constructor(clock: Clock, onDue: (id: Uuid) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  set(id: Uuid, at: EpochMs): void {
    this.#due.set(id, at);
    this.#timer ??= setInterval(() => this.#poll(), POLL_MS).unref();
  }

  sizes(): CollectionSizes {
    return { cognition_alarms: this.#due.size };
  }

  has = (id: Uuid): boolean => this.#due.has(id);

  clear(id: Uuid): void {
    this.#due.delete(id);
    if (this.#due.size === 0) this.close();
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#due.clear();
  }

  #poll(): void {
    const now = this.#clock.now();
    for (const [id, at] of [...this.#due]) {
      if (at > now) continue;
      this.clear(id);
      this.#onDue(id);
    }
  }
}
