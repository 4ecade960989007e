/** Bounds of the runtime; times in milliseconds. */
export interface RuntimeLimits {
  /** Events that may wait for one actor. */
  mailboxEvents: number;
  /** Events that may wait in all mailboxes together. */
  pendingEvents: number;
  /** Actors in memory; beyond it the longest unused are passivated. */
  liveActors: number;
  /** An actor nobody asked for this long is passivated. */
  idleMs: number;
  /** Mailboxes that a turn takes at a time: few enough that PostgreSQL works on one turn while the events of the next are handled. */
  batchActors: number;
  /** Events in one turn. */
  batchEvents: number;
  /** Actors that a turn may take in beside those because they are told something in it. */
  enlistedActors: number;
  /** A caller waits this long for a store that is away, a device's message that long. */
  callerTimeoutMs: number;
  deviceTimeoutMs: number;
  /** Throws within a minute that quarantine an actor. */
  throwsToQuarantine: number;
  /** Until what a quarantined actor did not take is offered again. */
  quarantineRetryMs: number;
  /** Between two looks for outbox rows that no transition of this process will deliver. */
  sweepMs: number;
  /** Silence after which a device counts as offline: three heartbeat intervals. */
  silenceMs: number;
  /** After a start, devices that were online have this long to be back. */
  reconnectGraceMs: number;
}

export const DEFAULT_RUNTIME_LIMITS: RuntimeLimits = {
  mailboxEvents: 1_000,
  pendingEvents: 100_000,
  liveActors: 150_000,
  idleMs: 10 * 60_000,
  batchActors: 64,
  batchEvents: 4_000,
  enlistedActors: 1_000,
  callerTimeoutMs: 2_000,
  deviceTimeoutMs: 10_000,
  throwsToQuarantine: 3,
  quarantineRetryMs: 30_000,
  sweepMs: 10_000,
  silenceMs: 180_000,
  reconnectGraceMs: 60_000,
};
