import type { CognitionProposal } from '#proto/cognition/v1/runtime_pb.js';
import { backoffDelay } from '../../domain/backoff.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import { type Call, openCall } from './call.ts';
import type { SidecarLimits } from './sidecar-limits.ts';

/** Handles one connected stream. */
export interface StreamHandler {
  onProposal(proposal: CognitionProposal, bytes: number): void;
  /** The stream is closed; later writes are discarded. */
  onClose(): void;
}

export interface DiallerParts {
  /** `host:port`; null while the address is unknown. */
  address(): string | null;
  limits: SidecarLimits;
  /** After it has ended nothing is dialled, sent or received. */
  lease: Pick<Lease, 'valid'>;
  log: Log;
  /** From 0 to below 1. */
  random?(): number;
  handleStream(call: Call): StreamHandler;
  /** True when the sidecar accepts a stream, false when that stream closes. */
  onConnectionChange?(connected: boolean): void;
}

export interface Dialler {
  connected(): boolean;
  /** Dials immediately if the dialler is in a back-off pause. */
  retryNow(): void;
  close(): void;
}

const WARN_AFTER_FAILURES = 4;

/** Keeps one stream to the sidecar open and reconnects with back-off until `close()`. */
export function dial(parts: DiallerParts): Dialler {
  const { address, limits, lease, log, random, handleStream, onConnectionChange } = parts;
  let current: Pick<Call, 'cancel'> | null = null;
  let connected = false;
  let closed = false;
  let failed = 0;
  let pause: NodeJS.Timeout | null = null;

  function attempt(): void {
    pause = null;
    if (closed || current !== null || !lease.valid()) return;
    const to = address();
    if (to === null) {
      // The sidecar process is starting. Its supervisor calls `retryNow` when it listens, and logs why it does not.
      pause = setTimeout(attempt, limits.backoff.maxMs);
      pause.unref();
      return;
    }
    let handler: StreamHandler | null = null;
    let acceptedAt: number | null = null;
    current = openCall(to, limits, lease, {
      onReady(stream) {
        handler = handleStream(stream);
      },
      onAccepted() {
        acceptedAt = performance.now();
        connected = true;
        log.info({ address: to }, 'sidecar connected');
        onConnectionChange?.(true);
      },
      onProposal: (proposal, bytes) => handler?.onProposal(proposal, bytes),
      onClose(why) {
        current = null;
        handler?.onClose();
        if (acceptedAt !== null && performance.now() - acceptedAt >= limits.stableAfterMs) failed = 0;
        if (connected) {
          connected = false;
          if (!closed) log.warn({ address: to, why }, 'sidecar disconnected');
          onConnectionChange?.(false);
        }
        scheduleRetry(why);
      },
    });
  }

  function scheduleRetry(why: string): void {
    if (closed || !lease.valid()) return;
    failed += 1;
    const ms = backoffDelay(failed, limits.backoff, 'half', random);
    // The first failures are expected while the sidecar starts.
    if (failed === WARN_AFTER_FAILURES) log.warn({ why }, 'sidecar unreachable; retrying with back-off');
    else log.debug({ why, pause_ms: Math.round(ms) }, 'sidecar connection failed; retrying');
    pause = setTimeout(attempt, ms);
    pause.unref();
  }

  attempt();
  return {
    connected: () => connected,
    retryNow() {
      if (pause === null || closed) return;
      clearTimeout(pause);
      attempt();
    },
    close() {
      closed = true;
      if (pause !== null) clearTimeout(pause);
      current?.cancel('the service is shutting down');
    },
  };
}
