import type { Clock } from '../domain/clock.ts';
import { type CollectionSizes, type SizeReporter, sumSizes } from '../domain/collection-sizes.ts';
import { type Lease, unlimitedLease } from '../domain/lease.ts';
import type { Log } from '../domain/log.ts';
import { shardOf } from '../domain/shards.ts';
import type { EpochMs, Milliseconds, Uuid } from '../domain/values.ts';
import type { Store } from '../store/contract.ts';
import type { Definitions } from './activator.ts';
import { type RuntimeMeter, unmetered } from './contract.ts';
import { EventBus } from './event-bus.ts';
import { Outbox } from './outbox.ts';
import { type LocalShards, ownsEverything } from './owned-shards.ts';
import { Presence } from './presence.ts';
import { ActorRegistry } from './registry.ts';
import { RevokedDeviceCommands } from './revoked-device-commands.ts';
import { DEFAULT_RUNTIME_LIMITS, type RuntimeLimits } from './runtime-limits.ts';
import { ShardUnloader } from './shard-unloader.ts';
import { Supervisor } from './supervisor.ts';
import { Timers } from './timers.ts';
import { UnreleasedTenants } from './unreleased-tenants.ts';
import { VerificationWatches } from './verification-watches.ts';

const PASSIVATE_MS = 5_000;
/** How long an operation takes to end when it was interrupted. */
const INTERRUPTED_MS: Milliseconds = 150;

/** The actor runtime and its parts; `main` creates one. */
export class Runtime implements SizeReporter {
  /** Outputs and transitions that were committed. */
  readonly eventBus: EventBus;
  readonly actors: Supervisor;
  readonly sessions: Presence;
  readonly watches: VerificationWatches;
  readonly timers: Timers;
  readonly outbox: Outbox;
  readonly #revokedDeviceCommands: RevokedDeviceCommands;
  readonly #unreleasedTenants: UnreleasedTenants;
  readonly #clock: Clock;
  /** Null for a process that owns everything. */
  readonly #shards: LocalShards | null;
  readonly #unloader: ShardUnloader | null;
  /** When this node last opened each shard. */
  readonly #openedAt = new Map<number, EpochMs>();
  #passivationTimer: NodeJS.Timeout | null = null;

  constructor(parts: {
    store: Store;
    definitions: Definitions;
    clock: Clock;
    /** Without a lease the runtime is active for its whole lifetime. */
    lease?: Lease;
    log: Log;
    limits?: Partial<RuntimeLimits>;
    meter?: RuntimeMeter;
    /** The shards of this node; without it, the process owns everything. */
    shards?: LocalShards;
  }) {
    const { store, clock, log } = parts;
    const shards = parts.shards ?? ownsEverything;
    const registry = new ActorRegistry();
    this.#clock = clock;
    this.#shards = parts.shards ?? null;
    this.#unloader = parts.shards ? new ShardUnloader(registry, parts.shards, clock) : null;
    const limits = { ...DEFAULT_RUNTIME_LIMITS, ...parts.limits };
    this.eventBus = new EventBus(log);
    this.actors = new Supervisor({
      store: store.actors,
      batchesInFlight: store.batchesInFlight,
      definitions: parts.definitions,
      clock,
      lease: parts.lease ?? unlimitedLease,
      limits,
      log,
      meter: parts.meter ?? unmetered,
      eventBus: this.eventBus,
      registry,
      shards,
    });
    const shared = { supervisor: this.actors, store, clock, limits, log, shards };
    this.outbox = new Outbox(shared);
    this.timers = new Timers({ ...shared, store: store.actors });
    this.watches = new VerificationWatches(shared);
    this.sessions = new Presence(shared);
    this.#revokedDeviceCommands = new RevokedDeviceCommands(shared);
    this.#unreleasedTenants = new UnreleasedTenants({ supervisor: this.actors, eventBus: this.eventBus, log });
    this.actors.setHooks({
      deliver: (rows) => this.outbox.deliver(rows),
      resolveSync: (output, batch) => this.outbox.resolveSync(output, batch),
      timerSet: (timer) => this.timers.timerSet(timer),
      reconcileWithStore: (actors) => {
        this.#reconcileWithStore();
        void this.#unreleasedTenants.announce(actors);
      },
    });
  }

  sizes(): CollectionSizes {
    return sumSizes([this.actors, this.outbox, this.sessions, this.timers, this.watches]);
  }

  /** Delivers what a crash left in the store, then starts the timers. Call before any listener opens. */
  async start(): Promise<void> {
    await this.watches.load();
    await this.outbox.sweep();
    await this.#revokedDeviceCommands.sweep();
    this.outbox.start();
    await this.sessions.start();
    this.timers.start();
    this.#passivationTimer = setInterval(() => this.actors.passivate(), PASSIVATE_MS);
    this.#passivationTimer.unref();
  }

  /** Loads what the previous owner of these shards has left; their actors can be used from then on. */
  async openShards(shards: readonly number[]): Promise<void> {
    for (const shard of shards) this.#openedAt.set(shard, this.#clock.now());
    this.#owned.add(shards);
    await this.watches.load(shards);
    await this.outbox.sweepAgain();
    await this.#revokedDeviceCommands.sweep();
    await this.sessions.expectReconnects(shards);
    this.timers.readSoon();
  }

  /** When this node last took over the tenant from another owner; null if it never did. */
  openedAt(tenantId: Uuid): EpochMs | null {
    return this.#openedAt.get(shardOf(tenantId)) ?? null;
  }

  /**
   * Stops beginning sessions and operations of these shards; `closeShards` or `keepShards` follows. Resolves when
   * those operations that were running have ended; with false if that takes longer than `timeoutMs`.
   */
  async startLeaving(shards: ReadonlySet<number>, timeoutMs: Milliseconds): Promise<boolean> {
    const { operations } = this.#owned;
    this.#owned.startLeaving(shards);
    if (await operations.whenEnded(shards, this.#clock, timeoutMs)) return true;
    operations.interrupt(shards);
    return operations.whenEnded(shards, this.#clock, INTERRUPTED_MS);
  }

  /** The shards are not closed: sessions may begin again. */
  keepShards(shards: ReadonlySet<number>): void {
    this.#owned.stay(shards);
  }

  /**
   * Finishes the work of these shards and removes them from memory: another node can own them. False if their actors do
   * not become idle in time; they stay open then. The caller has ended everything that sends them events.
   */
  async closeShards(shards: ReadonlySet<number>, timeoutMs: Milliseconds): Promise<boolean> {
    if (!(await this.#unloader?.unload(shards, timeoutMs))) {
      this.#repeatSkipped(shards);
      return false;
    }
    await this.sessions.leaveShards(shards);
    this.watches.reload();
    return true;
  }

  /** Rejects new events, finishes the accepted ones, flushes presence. */
  async stop(): Promise<void> {
    this.#stopDelivery();
    if (this.#passivationTimer) clearInterval(this.#passivationTimer);
    await this.actors.drain();
    await this.sessions.stop();
  }

  /** Starts no further batch, because the active lock is lost. */
  halt(): void {
    this.actors.groupCommit.stop();
    this.#stopDelivery();
  }

  get #owned(): LocalShards {
    if (this.#shards === null) throw new Error('the process owns everything');
    return this.#shards;
  }

  #stopDelivery(): void {
    this.timers.stop();
    this.outbox.stop();
    this.#revokedDeviceCommands.stop();
    this.#unreleasedTenants.stop();
    this.watches.stop();
  }

  /** Reads what was left out while these shards were being unloaded: their rows, and the devices to mark offline. */
  #repeatSkipped(shards: ReadonlySet<number>): void {
    this.sessions.shardsStayed(shards);
    this.#reconcileWithStore();
  }

  #reconcileWithStore(): void {
    void this.outbox.sweep();
    this.timers.readSoon();
    this.watches.reload();
    this.#revokedDeviceCommands.sweepTwice();
  }
}
