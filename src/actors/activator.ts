import type { Clock } from '../domain/clock.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import { compiledMachine } from '../machines/compiled.ts';
import type { MachineDefinition } from '../machines/definition.ts';
import type { ActorKind, ActorRef } from '../machines/outputs.ts';
import type { ActorStore, StoredActor } from '../store/contract.ts';
import { NotOwner } from './contract.ts';
import type { Deadlines } from './deadlines.ts';
import { addressOf, createBlankActor, LiveActor } from './live-actor.ts';
import { Loader } from './loader.ts';
import type { ShardOwnership } from './owned-shards.ts';
import type { ActorRegistry } from './registry.ts';

/** Returns a machine's definition: the current one, or the version that wrote a stored actor. */
export type Definitions = (kind: ActorKind, version?: number) => MachineDefinition;

export interface ActivatorParts {
  store: ActorStore;
  definitions: Definitions;
  clock: Clock;
  log: Log;
  registry: ActorRegistry;
  shards: ShardOwnership;
  deadlines: Deadlines;
  /** Adds a loaded actor to the registry. */
  register(actor: LiveActor): void;
}

/** Activation: makes live actors, of stored rows or new ones, so that each has one instance on the node that owns it. */
export class Activator {
  readonly #parts: ActivatorParts;
  readonly #loader: Loader;

  constructor(parts: ActivatorParts) {
    this.#parts = parts;
    this.#loader = new Loader(parts.store, () => parts.shards.generation);
  }

  sizes(): CollectionSizes {
    return this.#loader.sizes();
  }

  isLoading(ref: ActorRef): boolean {
    return this.#loader.isLoading(ref);
  }

  /** An actor before its creating event, not in the registry. */
  createBlank(ref: ActorRef): LiveActor {
    const { definitions, clock } = this.#parts;
    return createBlankActor(ref, definitions(ref.kind), clock.now());
  }

  /** The live actor, or the stored one; retries until a caller's deadline while the store is unavailable. */
  getOrLoad(ref: ActorRef): Promise<LiveActor | null> {
    return this.load(ref, this.#parts.deadlines.callerWaits());
  }

  /** The same to read its state: that of another node's actor is read from the store, and not kept. */
  readOrLoad(ref: ActorRef): Promise<LiveActor | null> {
    return this.load(ref, this.#parts.deadlines.callerWaits(), (stored) => this.#instantiate(stored));
  }

  /** Rejects with `NotOwner` for another node's actor, unless `elsewhere` makes something of it. */
  async load(
    ref: ActorRef,
    isWanted: () => boolean,
    elsewhere?: (stored: StoredActor) => LiveActor,
  ): Promise<LiveActor | null> {
    const { registry, shards, register } = this.#parts;
    const { generation } = shards;
    const stored = await this.#loader.load(ref, isWanted);
    const live = registry.get(ref);
    if (stored === null) return live && live.version > 0 ? live : null; // It may have been created since the query.
    if (live) return live;
    if (!shards.accepts(stored.tenantId)) {
      if (elsewhere === undefined) throw new NotOwner();
      return elsewhere(stored);
    }
    // Its shard may have been added since the query, and its row changed by another node.
    if (generation !== shards.generation) return this.load(ref, isWanted, elsewhere);
    const actor = this.#instantiate(stored);
    register(actor);
    return actor;
  }

  #instantiate(stored: StoredActor): LiveActor {
    const { definitions, clock, log } = this.#parts;
    let definition = definitions(stored.ref.kind);
    const now = clock.now();
    let quarantine = stored.quarantine;
    let snapshot = compiledMachine(definition.machine).initial;
    try {
      definition = definitions(stored.ref.kind, stored.machineVersion);
      snapshot = compiledMachine(definition.machine).initial;
      snapshot = compiledMachine(definition.machine).restore(stored.value, definition.fromStored(stored.context));
    } catch (error) {
      quarantine = `the stored state does not match the machine: ${(error as Error).message}`;
      log.error(
        { actor: addressOf(stored.ref), err: error },
        'stored actor does not match its machine; quarantining it',
      );
    }
    const { ref, version, since } = stored;
    const actor = new LiveActor(ref, definition, { snapshot, version, since }, now);
    actor.storedTenantId = stored.tenantId;
    actor.quarantine = quarantine;
    return actor;
  }
}
