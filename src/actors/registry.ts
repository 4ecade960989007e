import type { Uuid } from '../domain/values.ts';
import type { ActorKind, ActorRef } from '../machines/outputs.ts';
import type { LiveActor } from './live-actor.ts';

/** Registry of the actors in memory, by kind and id, so that frequent lookups need no address string. */
export class ActorRegistry {
  private readonly byKind: Record<ActorKind, Map<Uuid, LiveActor>> = {
    device: new Map(),
    command: new Map(),
    tenant: new Map(),
    plan: new Map(),
  };

  get size(): number {
    const { device, command, tenant, plan } = this.byKind;
    return device.size + command.size + tenant.size + plan.size;
  }

  get({ kind, id }: ActorRef): LiveActor | undefined {
    return this.byKind[kind].get(id);
  }

  has({ kind, id }: ActorRef): boolean {
    return this.byKind[kind].has(id);
  }

  add(actor: LiveActor): void {
    const { kind, id } = actor.ref;
    this.byKind[kind].set(id, actor);
  }

  remove({ kind, id }: ActorRef): void {
    this.byKind[kind].delete(id);
  }

  *[Symbol.iterator](): Generator<LiveActor> {
    for (const actors of Object.values(this.byKind)) yield* actors.values();
  }
}
