import type { Milliseconds } from '../../domain/values.ts';

/** What one client may cost. */
export interface SocketLimits {
  /** Bytes that may wait in a socket; beyond it the newest update of each subject waits instead. */
  highWater: number;
  /** Subjects that may wait for one client; beyond it the client is sent away. */
  maxWaiting: number;
  /** Bytes of a client's message: the only one that means anything is `ping`. */
  maxPayload: number;
  /** Messages of a client between two looks. */
  maxMessages: number;
  /** How often credentials are looked at: their end closes within a second (contract §6). */
  lookMs: Milliseconds;
  /** A client that neither answers nor takes a byte for two of these is dead. */
  pingMs: Milliseconds;
  /** How long an update may come out after a snapshot that had it already. */
  settleMs: Milliseconds;
}

export const defaultLimits: SocketLimits = {
  highWater: 1024 * 1024,
  maxWaiting: 200_000,
  maxPayload: 1_024,
  maxMessages: 200,
  lookMs: 250,
  pingMs: 30_000,
  settleMs: 5_000,
};
