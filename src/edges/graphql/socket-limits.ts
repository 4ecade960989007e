import type { Milliseconds } from '../../domain/values.ts';
import { type UnauthenticatedLimits, unauthenticatedWebSockets } from '../shared/unauthenticated-connections.ts';

/** Limits of one connection. */
export interface SocketLimits {
  /** Bytes of a message. */
  maxPayload: number;
  /** Messages per `credentialCheckMs`. */
  maxMessages: number;
  /** Concurrent operations. */
  maxOperations: number;
  /** Unsent responses: more than all operations can have, so only a client that sends requests without reading reaches it. */
  maxPendingSends: number;
  /** Time from the handshake to `connection_init`. */
  initMs: Milliseconds;
  /** Connections before it. */
  unauthenticated: UnauthenticatedLimits;
  /** Interval of credential checks: an expired credential closes the connection within a second (contract §6). */
  credentialCheckMs: Milliseconds;
  /** Ping interval; a client that misses two pings is terminated. */
  pingMs: Milliseconds;
}

/** Limits in production. */
export const defaultSocketLimits: SocketLimits = {
  maxPayload: 256 * 1024,
  maxMessages: 200,
  maxOperations: 100,
  maxPendingSends: 1_000,
  initMs: 10_000,
  unauthenticated: unauthenticatedWebSockets,
  credentialCheckMs: 250,
  pingMs: 30_000,
};
