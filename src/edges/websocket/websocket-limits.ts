import type { Milliseconds } from '../../domain/values.ts';

/** Limits per client. */
export interface WebSocketLimits {
  /** Bytes that may be buffered in a socket; above it only the newest update of each subject is kept. */
  highWater: number;
  /** Subjects that may be pending for one client; above it the connection is closed. */
  maxPendingUpdates: number;
  /** Bytes of a client's message; the only valid one is `ping`. */
  maxPayload: number;
  /** Messages of a client between two health checks. */
  maxMessagesPerCheck: number;
  /** How often credentials are checked: an expired one closes the connection within a second (contract §6). */
  checkIntervalMs: Milliseconds;
  /** A client that for two intervals neither answers a ping nor reads a byte is dead. */
  pingIntervalMs: Milliseconds;
  /** How long a snapshot is kept to drop late updates that it already contained. */
  snapshotWindowMs: Milliseconds;
}

export const defaultWebSocketLimits: WebSocketLimits = {
  highWater: 1024 * 1024,
  maxPendingUpdates: 200_000,
  maxPayload: 1_024,
  maxMessagesPerCheck: 200,
  checkIntervalMs: 250,
  pingIntervalMs: 30_000,
  snapshotWindowMs: 5_000,
};
