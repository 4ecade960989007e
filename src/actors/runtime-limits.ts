import { CALLER_TIMEOUT_MS, DEVICE_TIMEOUT_MS } from '../store/contract.ts';

/** Limits of the actor runtime; times in milliseconds. */
export interface RuntimeLimits {
  /** Maximum length of one mailbox. */
  mailboxEvents: number;
  /** Maximum number of events in all mailboxes together. */
  pendingEvents: number;
  /** Maximum number of actors in memory; above it the least recently used are passivated. */
  liveActors: number;
  /** An actor that was not used for this time is passivated. */
  idleMs: number;
  /** Mailboxes per batch: few enough that PostgreSQL commits one batch while the next one is decided. */
  batchActors: number;
  /** Events per batch. */
  batchEvents: number;
  /** Additional actors that a batch may enlist as receivers of messages. */
  enlistedActors: number;
  /** How long an event of a caller waits while the store is unavailable. */
  callerTimeoutMs: number;
  /** The same for a message of a device. */
  deviceTimeoutMs: number;
  /** Failed events within a minute after which an actor is quarantined. */
  failuresToQuarantine: number;
  /** Delay before timers and messages are sent again to a quarantined actor. */
  quarantineRetryMs: number;
  /** Interval of the sweep for outbox rows that no transition of this process delivers. */
  sweepMs: number;
  /** Silence after which a device counts as offline: three heartbeat intervals. */
  silenceMs: number;
  /** Time after a start in which devices that were online must reconnect. */
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
  callerTimeoutMs: CALLER_TIMEOUT_MS,
  deviceTimeoutMs: DEVICE_TIMEOUT_MS,
  failuresToQuarantine: 3,
  quarantineRetryMs: 30_000,
  sweepMs: 10_000,
  silenceMs: 180_000,
  reconnectGraceMs: 60_000,
};
