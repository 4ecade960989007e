/** Bounds of the runtime; times in milliseconds. */
export interface Limits {
  /** Events that may wait for one actor. */
  mailbox: number;
  /** Events that may wait in all mailboxes together. */
  waiting: number;
  /** Actors in memory; beyond it the longest unused are passivated. */
  live: number;
  /** An actor nobody asked for this long is passivated. */
  idleMs: number;
  /** Mailboxes that a turn takes at a time: few enough that PostgreSQL works on one turn while the events of the next are handled. */
  turnActors: number;
  /** Events in one turn. */
  turnEvents: number;
  /** Actors that a turn may take in beside those because they are told something in it. */
  turnCompanions: number;
  /** A caller waits this long for a store that is away, a device's message that long. */
  callerPatienceMs: number;
  devicePatienceMs: number;
  /** Throws within a minute that quarantine an actor. */
  throwsToQuarantine: number;
  /** Until what a quarantined actor did not take is offered again. */
  quarantinedAgainMs: number;
  /** Between two looks for outbox rows that no transition of this process will deliver. */
  sweepMs: number;
  /** Silence after which a device counts as offline: three heartbeat intervals. */
  silenceMs: number;
  /** After a start, devices that were online have this long to be back. */
  returnMs: number;
}

export const DEFAULT_LIMITS: Limits = {
  mailbox: 1_000,
  waiting: 100_000,
  live: 150_000,
  idleMs: 10 * 60_000,
  turnActors: 64,
  turnEvents: 4_000,
  turnCompanions: 1_000,
  callerPatienceMs: 2_000,
  devicePatienceMs: 10_000,
  throwsToQuarantine: 3,
  quarantinedAgainMs: 30_000,
  sweepMs: 10_000,
  silenceMs: 180_000,
  returnMs: 60_000,
};
