import type { Clock } from '../domain/clock.ts';
import { type CollectionSizes, type SizeReporter, sumSizes } from '../domain/collection-sizes.ts';
import { type Lease, unlimitedLease } from '../domain/lease.ts';
import type { Log } from '../domain/log.ts';
import type { Store } from '../store/contract.ts';
import { type RuntimeMeter, unmetered } from './contract.ts';
import { EventBus } from './event-bus.ts';
import { Outbox } from './outbox.ts';
import { Presence } from './presence.ts';
import { RevokedDeviceCommands } from './revoked-device-commands.ts';
import { DEFAULT_RUNTIME_LIMITS, type RuntimeLimits } from './runtime-limits.ts';
import { type Definitions, Supervisor } from './supervisor.ts';
import { Timers } from './timers.ts';
import { VerificationWatches } from './verification-watches.ts';

const PASSIVATE_MS = 5_000;

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
  }) {
    const { store, clock, log } = parts;
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
    });
    const shared = { supervisor: this.actors, store, clock, limits, log };
    this.outbox = new Outbox(shared);
    this.timers = new Timers({ ...shared, store: store.actors });
    this.watches = new VerificationWatches(shared);
    this.sessions = new Presence(shared);
    this.#revokedDeviceCommands = new RevokedDeviceCommands(shared);
    this.actors.setHooks({
      deliver: (rows) => this.outbox.deliver(rows),
      resolveSync: (output, batch) => this.outbox.resolveSync(output, batch),
      timerSet: (timer) => this.timers.timerSet(timer),
      reconcileWithStore: () => this.#reconcileWithStore(),
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

  #stopDelivery(): void {
    this.timers.stop();
    this.outbox.stop();
    this.#revokedDeviceCommands.stop();
    this.watches.stop();
  }

  #reconcileWithStore(): void {
    void this.outbox.sweep();
    this.watches.reload();
    this.#revokedDeviceCommands.sweepTwice();
  }
}
