import type { Uuid } from '../domain/values.ts';
import type { ActorKind, ActorRef } from '../machines/outputs.ts';
import type { Entity } from './entity.ts';

/** The actors in memory, by kind and id: looked up for nearly everything, so no address is put together for it. */
export class Roster {
  private readonly kinds: Record<ActorKind, Map<Uuid, Entity>> = {
    device: new Map(),
    command: new Map(),
    tenant: new Map(),
    plan: new Map(),
  };

  get size(): number {
    const { device, command, tenant, plan } = this.kinds;
    return device.size + command.size + tenant.size + plan.size;
  }

  get({ kind, id }: ActorRef): Entity | undefined {
    return this.kinds[kind].get(id);
  }

  has({ kind, id }: ActorRef): boolean {
    return this.kinds[kind].has(id);
  }

  keep(entity: Entity): void {
    const { kind, id } = entity.ref;
    this.kinds[kind].set(id, entity);
  }

  drop({ kind, id }: ActorRef): void {
    this.kinds[kind].delete(id);
  }

  *[Symbol.iterator](): Generator<Entity> {
    for (const entities of Object.values(this.kinds)) yield* entities.values();
  }
}
