import type { BackoffLimits } from '../../domain/backoff.ts';
import type { Milliseconds } from '../../domain/values.ts';

/** Resource limits of the stream to a sidecar. They hold whatever the sidecar does. */
export interface SidecarLimits {
  /** Exponential back-off between connection attempts. */
  backoff: BackoffLimits;
  /** A stream that lasted this long resets the back-off. */
  stableAfterMs: Milliseconds;
  /** Time limit for the TCP and HTTP/2 connection. */
  connectTimeoutMs: Milliseconds;
  /**
   * A stream that was not refused within this time counts as accepted: many sidecars send no headers before their first
   * proposal.
   */
  acceptanceGraceMs: Milliseconds;
  keepaliveMs: Milliseconds;
  keepaliveTimeoutMs: Milliseconds;
  /** The call is cancelled when one write is blocked for this long. */
  stallTimeoutMs: Milliseconds;
  /** Size of one proposal. */
  maxProposalBytes: number;
  /** Queued events. Beyond it the stream is closed, and the next stream starts with a full synchronization. */
  maxQueuedEvents: number;
  /**
   * Token bucket for proposals; reading pauses while it is empty. A proposal costs one token per `bytesPerToken`, at
   * least one.
   */
  proposalRate: { perSecond: number; burst: number; bytesPerToken: number };
  /** Proposals in progress; beyond it reading pauses. */
  maxInFlightProposals: number;
  /** Minimum time between two updates of the same scope. */
  coalesceMs: Milliseconds;
  /** Time between two updates of homes without active contexts. */
  idleHomeIntervalMs: Milliseconds;
  /** Changed homes that wait for such an update. A home beyond it is queued at its next change. */
  maxIdleHomes: number;
  /** Contexts held in memory. Those beyond it are loaded when others have ended. */
  maxContexts: number;
  /** Contexts in one perception update. */
  maxContextsPerUpdate: number;
}

export const defaultSidecarLimits: SidecarLimits = {
  backoff: { firstMs: 500, maxMs: 30_000 },
  stableAfterMs: 10_000,
  connectTimeoutMs: 10_000,
  acceptanceGraceMs: 250,
  keepaliveMs: 20_000,
  keepaliveTimeoutMs: 10_000,
  stallTimeoutMs: 30_000,
  maxProposalBytes: 1024 * 1024,
  maxQueuedEvents: 10_000,
  proposalRate: { perSecond: 100, burst: 500, bytesPerToken: 4 * 1024 },
  maxInFlightProposals: 64,
  coalesceMs: 1_000,
  idleHomeIntervalMs: 500,
  maxIdleHomes: 10_000,
  maxContexts: 10_000,
  maxContextsPerUpdate: 100,
};
