import type { Milliseconds } from '../../domain/values.ts';

/** What the stream to a sidecar may cost, however it behaves. */
export interface SidecarLimits {
  /** The pause before another attempt, doubled with each that failed. */
  backoff: { initialMs: Milliseconds; maxMs: Milliseconds };
  /** A stream that stood this long makes the pauses start anew. */
  stableAfterMs: Milliseconds;
  /** For the connection to stand. */
  connectTimeoutMs: Milliseconds;
  /** A sidecar that refuses the stream does so within this time; many say nothing before their first proposal. */
  acceptanceGraceMs: Milliseconds;
  keepaliveMs: Milliseconds;
  keepaliveTimeoutMs: Milliseconds;
  /** One that reads nothing for so long is hung up on. */
  stallTimeoutMs: Milliseconds;
  /** Of one proposal, in bytes. */
  maxProposalBytes: number;
  /** Events that wait to be written; beyond it everything is told anew instead. */
  maxQueuedEvents: number;
  /** Proposals a second, and at once; beyond it the stream is not read. One of more bytes counts as several. */
  proposalRate: { perSecond: number; burst: number; bytesPerToken: number };
  /** Proposals that are being answered; beyond it the stream is not read. */
  maxInFlightProposals: number;
  /** A part of the world that changed is told at most once in this time. */
  coalesceMs: Milliseconds;
  /** Between two homes about which there is nothing to think. */
  idleHomeIntervalMs: Milliseconds;
  /** Homes that changed and wait to be told; the others are told when they change again. */
  maxIdleHomes: number;
  /** Contexts that are kept in mind; those beyond it are looked for when others are over. */
  maxContexts: number;
  /** Contexts in one perception. */
  maxContextsPerUpdate: number;
}

export const defaultSidecarLimits: SidecarLimits = {
  backoff: { initialMs: 500, maxMs: 30_000 },
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
