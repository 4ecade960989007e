import type { EpochMs, Uuid } from '../domain/values.ts';
import type { ActorKind, ActorRef } from '../machines/outputs.ts';
import type { LiveActor } from './live-actor.ts';
import type { RuntimeLimits } from './runtime-limits.ts';

/** Number of actors in memory, by kind, and the length of the longest mailbox. */
export interface RegistryStats {
  live: number;
  byKind: Record<ActorKind, number>;
  deepestMailbox: number;
}

/** Registry of the actors in memory, by kind and id, so that frequent lookups need no address string. */
export class ActorRegistry {
  readonly #byKind: Record<ActorKind, Map<Uuid, LiveActor>> = {
    device: new Map(),
    command: new Map(),
    tenant: new Map(),
    plan: new Map(),
  };

  get size(): number {
    const { device, command, tenant, plan } = this.#byKind;
    return device.size + command.size + tenant.size + plan.size;
  }

  get({ kind, id }: ActorRef): LiveActor | undefined {
    return this.#byKind[kind].get(id);
  }

  has({ kind, id }: ActorRef): boolean {
    return this.#byKind[kind].has(id);
  }

  add(actor: LiveActor): void {
    const { kind, id } = actor.ref;
    this.#byKind[kind].set(id, actor);
  }

  /** Removes this instance; another one that was loaded in its place stays. */
  remove(actor: LiveActor): void {
    const { kind, id } = actor.ref;
    if (this.#byKind[kind].get(id) === actor) this.#byKind[kind].delete(id);
  }

  stats(): RegistryStats {
    const { device, command, tenant, plan } = this.#byKind;
    let deepestMailbox = 0;
    for (const { mailbox } of this) deepestMailbox = Math.max(deepestMailbox, mailbox.length);
    return {
      live: this.size,
      byKind: { device: device.size, command: command.size, tenant: tenant.size, plan: plan.size },
      deepestMailbox,
    };
  }

  /**
   * Removes actors from memory that were not used for `idleMs`, and the least recently used ones above `liveActors`.
   * Actors with queued events or in a batch stay. Returns the number of removed actors.
   */
  passivate(now: EpochMs, { idleMs, liveActors }: RuntimeLimits): number {
    const before = this.size;
    for (const actor of this) {
      if (isIdle(actor) && now - actor.lastUsedAt >= idleMs) this.remove(actor);
    }
    const excess = this.size - liveActors;
    if (excess > 0) {
      const idle = [...this].filter(isIdle);
      idle.sort((a, b) => a.lastUsedAt - b.lastUsedAt);
      for (const actor of idle.slice(0, excess)) this.remove(actor);
    }
    return before - this.size;
  }

  *[Symbol.iterator](): Generator<LiveActor> {
    for (const actors of Object.values(this.#byKind)) yield* actors.values();
  }
}

const isIdle = ({ status, mailbox }: LiveActor): boolean => status === 'idle' && mailbox.length === 0;
