import type { Clock } from '../domain/clock.ts';
import { type SizeReporter, sumSizes } from '../domain/collection-sizes.ts';
import { type Lease, unlimitedLease } from '../domain/lease.ts';
import type { Log } from '../domain/log.ts';
import type { Store } from '../store/contract.ts';
import { type RuntimeMeter, unmetered } from './contract.ts';
import { Outbox } from './outbox.ts';
import { Presence } from './presence.ts';
import { RevokedDeviceCommands } from './revoked-device-commands.ts';
import { DEFAULT_RUNTIME_LIMITS, type RuntimeLimits } from './runtime-limits.ts';
import { type Definitions, Supervisor } from './supervisor.ts';
import { Timers } from './timers.ts';
import { VerificationWatches } from './verification-watches.ts';

const PASSIVATE_MS = 5_000;

/** The actor runtime and its parts; `main` creates one. */
export interface Runtime extends SizeReporter {
  actors: Supervisor;
  sessions: Presence;
  watches: VerificationWatches;
  timers: Timers;
  outbox: Outbox;
  /** Delivers what a crash left in the store, then starts the timers. Call before any listener opens. */
  start(): Promise<void>;
  /** Rejects new events, finishes the accepted ones, flushes presence. */
  stop(): Promise<void>;
  /** Starts no further batch, because the active lock is lost. */
  halt(): void;
}

export function createRuntime(parts: {
  store: Store;
  definitions: Definitions;
  clock: Clock;
  /** Without a lease the runtime is active for its whole lifetime. */
  lease?: Lease;
  log: Log;
  limits?: Partial<RuntimeLimits>;
  meter?: RuntimeMeter;
}): Runtime {
  const { store, clock, log } = parts;
  const limits = { ...DEFAULT_RUNTIME_LIMITS, ...parts.limits };
  const meter = parts.meter ?? unmetered;
  const actors = new Supervisor({
    store: store.actors,
    batchesInFlight: store.batchesInFlight,
    definitions: parts.definitions,
    clock,
    lease: parts.lease ?? unlimitedLease,
    limits,
    log,
    meter,
  });
  const outbox = new Outbox({ supervisor: actors, store, clock, limits, log });
  const timers = new Timers({ supervisor: actors, store: store.actors, clock, limits, log });
  const watches = new VerificationWatches({ supervisor: actors, store, log });
  const sessions = new Presence({ supervisor: actors, store, clock, limits, log });
  const revokedDeviceCommands = new RevokedDeviceCommands({ supervisor: actors, store, clock, limits, log });
  actors.setHooks({
    deliver: (rows) => outbox.deliver(rows),
    resolveSync: (output, batch) => outbox.resolveSync(output, batch),
    timerSet: (timer) => timers.timerSet(timer),
    reconcileWithStore: () => {
      void outbox.sweep();
      watches.reload();
      revokedDeviceCommands.sweepTwice();
    },
  });
  let passivationTimer: NodeJS.Timeout | null = null;
  return {
    actors,
    sessions,
    watches,
    timers,
    outbox,
    sizes: () => sumSizes([actors, outbox, sessions, timers, watches]),
    async start() {
      await watches.load();
      await outbox.sweep();
      await revokedDeviceCommands.sweep();
      outbox.start();
      await sessions.start();
      timers.start();
      passivationTimer = setInterval(() => actors.passivate(), PASSIVATE_MS);
      passivationTimer.unref();
    },
    async stop() {
      timers.stop();
      outbox.stop();
      revokedDeviceCommands.stop();
      watches.stop();
      if (passivationTimer) clearInterval(passivationTimer);
      await actors.drain();
      await sessions.stop();
    },
    halt() {
      actors.groupCommit.stop();
      timers.stop();
      outbox.stop();
      revokedDeviceCommands.stop();
      watches.stop();
    },
  };
}
