import type { Milliseconds } from '../../domain/values.ts';

/** Limits of the links between nodes. */
export interface LinkLimits {
  /** Time for a TCP (and TLS) connection to a node. */
  connectMs: Milliseconds;
  /** Time for a peer's part of the handshake. */
  handshakeMs: Milliseconds;
  /** Time for the listener's confirmation, which waits while the shard moves. */
  confirmMs: Milliseconds;
  /** Connections in the handshake; a new one replaces the oldest. */
  maxUnauthenticated: number;
  /** Time after which an idle link of the HTTP pool is closed; the listener keeps it longer. */
  idleMs: Milliseconds;
  /** Time after which a request or connection is no longer sent to the owner again; see `ShardRouter`. */
  retryMs: Milliseconds;
  /**
   * Silence of a link after which a request that waits for its response is given up: the connection may be half open.
   * Longer than any operation waits; MCP calls wait up to 45 s for a plan.
   */
  responseMs: Milliseconds;
}

export const defaultLinkLimits: LinkLimits = {
  connectMs: 1_000,
  handshakeMs: 3_000,
  confirmMs: 5_000,
  maxUnauthenticated: 128,
  idleMs: 20_000,
  retryMs: 2_000,
  responseMs: 60_000,
};

/** A certificate and its private key, as PEM. Peers do not check the certificate: the handshake is bound to the session. */
export interface LinkTls {
  cert: string | Buffer;
  key: string | Buffer;
}
