import type { Milliseconds } from '../../domain/values.ts';

/** What one client may cost. */
export interface WebSocketLimits {
  /** Bytes that may wait in a socket; beyond it the newest update of each subject waits instead. */
  highWater: number;
  /** Subjects that may wait for one client; beyond it the client is sent away. */
  maxPendingUpdates: number;
  /** Bytes of a client's message: the only one that means anything is `ping`. */
  maxPayload: number;
  /** Messages of a client between two looks. */
  maxMessagesPerCheck: number;
  /** How often credentials are looked at: their end closes within a second (contract §6). */
  checkIntervalMs: Milliseconds;
  /** A client that neither answers nor takes a byte for two of these is dead. */
  pingIntervalMs: Milliseconds;
  /** How long an update may come out after a snapshot that had it already. */
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
