import { setTimeout as pause } from 'node:timers/promises';
import { type Clock, elapsedOf } from '../domain/clock.ts';
import { shardOf } from '../domain/shards.ts';
import type { Milliseconds } from '../domain/values.ts';
import type { LiveActor } from './live-actor.ts';
import type { LocalShards } from './owned-shards.ts';
import type { ActorRegistry } from './registry.ts';

const POLL_MS: Milliseconds = 5;

/** Removes the actors of shards from memory. */
export class ShardUnloader {
  readonly #registry: ActorRegistry;
  readonly #shards: LocalShards;
  readonly #clock: Clock;

  constructor(registry: ActorRegistry, shards: LocalShards, clock: Clock) {
    this.#registry = registry;
    this.#shards = shards;
    this.#clock = clock;
  }

  /**
   * Removes the actors when none of them has anything to do; the shards accept no further actors before. False if some
   * are still busy after `timeoutMs`; then nothing has changed.
   */
  async unload(of: ReadonlySet<number>, timeoutMs: Milliseconds): Promise<boolean> {
    const until = elapsedOf(this.#clock) + timeoutMs;
    // Each may be of one of the shards; those that come later are refused there.
    const created = [...this.#registry].filter(({ version }) => version === 0);
    this.#shards.startUnloading(of);
    for (;;) {
      if (!created.some((actor) => this.#isBeingCreated(actor))) {
        const actors = [...this.#registry].filter((actor) => isOfShard(actor, of));
        const busy = actors.filter(isBusy);
        if (busy.length === 0) {
          for (const actor of actors) this.#registry.remove(actor);
          this.#shards.remove(of);
          return true;
        }
        // Their number is small: all actors are looked through again only when these are idle.
        while (busy.some(isBusy) && elapsedOf(this.#clock) < until) await pause(POLL_MS);
      }
      if (elapsedOf(this.#clock) >= until) {
        this.#shards.stay(of);
        return false;
      }
      await pause(POLL_MS);
    }
  }

  #isBeingCreated(actor: LiveActor): boolean {
    return actor.version === 0 && this.#registry.get(actor.ref) === actor;
  }
}

/** False for an actor before its first event, which belongs to no tenant yet. */
const isOfShard = (actor: LiveActor, shards: ReadonlySet<number>): boolean =>
  actor.version > 0 && shards.has(shardOf(actor.tenantId));

const isBusy = ({ status, mailbox }: LiveActor): boolean =>
  (status !== 'idle' && status !== 'evicted') || mailbox.length > 0;
