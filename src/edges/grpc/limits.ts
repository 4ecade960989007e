import type { Milliseconds } from '../../domain/values.ts';

/** What the stream to a sidecar may cost, however it behaves. */
export interface SidecarLimits {
  /** The pause before another attempt, doubled with each that failed. */
  backoff: { firstMs: Milliseconds; mostMs: Milliseconds };
  /** A stream that stood this long makes the pauses start anew. */
  steadyMs: Milliseconds;
  /** For the connection to stand. */
  connectMs: Milliseconds;
  /** A sidecar that refuses the stream does so within this time; many say nothing before their first proposal. */
  graceMs: Milliseconds;
  keepaliveMs: Milliseconds;
  keepaliveTimeoutMs: Milliseconds;
  /** One that reads nothing for so long is hung up on. */
  stallMs: Milliseconds;
  /** Of one proposal, in bytes. */
  maxProposal: number;
  /** Events that wait to be written; beyond it everything is told anew instead. */
  queued: number;
  /** Proposals a second, and at once; beyond it the stream is not read. One of more bytes counts as several. */
  proposals: { perSecond: number; burst: number; bytes: number };
  /** Proposals that are being answered; beyond it the stream is not read. */
  inFlight: number;
  /** A part of the world that changed is told at most once in this time. */
  coalesceMs: Milliseconds;
  /** Between two homes about which there is nothing to think. */
  quietMs: Milliseconds;
  /** Homes that changed and wait to be told; the others are told when they change again. */
  quietHomes: number;
  /** Contexts that are kept in mind; those beyond it are looked for when others are over. */
  allContexts: number;
  /** Contexts in one perception. */
  contexts: number;
}

export const defaultLimits: SidecarLimits = {
  backoff: { firstMs: 500, mostMs: 30_000 },
  steadyMs: 10_000,
  connectMs: 10_000,
  graceMs: 250,
  keepaliveMs: 20_000,
  keepaliveTimeoutMs: 10_000,
  stallMs: 30_000,
  maxProposal: 1024 * 1024,
  queued: 10_000,
  proposals: { perSecond: 100, burst: 500, bytes: 4 * 1024 },
  inFlight: 64,
  coalesceMs: 1_000,
  quietMs: 500,
  quietHomes: 10_000,
  allContexts: 10_000,
  contexts: 100,
};
