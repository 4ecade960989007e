import type { CognitionProposal } from '#proto/cognition/v1/runtime_pb.js';
import type { Lease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import type { Milliseconds } from '../../domain/values.ts';
import { type Call, openCall } from './call.ts';
import type { SidecarLimits } from './sidecar-limits.ts';

/** What is done with a stream that stands. */
export interface StreamHandler {
  onProposal(proposal: CognitionProposal, bytes: number): void;
  /** The stream is gone: nothing more can be said. */
  onClose(): void;
}

export interface DiallerParts {
  /** `host:port`; null while it is not known. */
  address(): string | null;
  limits: SidecarLimits;
  /** Nothing is dialled, sent or passed on once it is over. */
  lease: Pick<Lease, 'valid'>;
  log: Log;
  /** From 0 to below 1. */
  random?(): number;
  handleStream(call: Call): StreamHandler;
  /** A stream stands that the sidecar took, or does not any more. */
  onConnectionChange?(connected: boolean): void;
}

export interface Dialler {
  connected(): boolean;
  /** Dials at once, where nothing stands and nothing is being tried. */
  retryNow(): void;
  close(): void;
}

const WARN_AFTER_FAILURES = 4;

/** The pause before attempt number `failed` + 1: doubled each time, half of it by chance, so that many do not come at once. */
export function backoffDelay(
  failed: number,
  { initialMs, maxMs }: SidecarLimits['backoff'],
  random: number,
): Milliseconds {
  const whole = Math.min(maxMs, initialMs * 2 ** Math.min(failed - 1, 30));
  return whole / 2 + (whole / 2) * random;
}

/** Keeps a stream to the sidecar for as long as the service lives. */
export function dial(parts: DiallerParts): Dialler {
  const { address, limits, lease, log, random = Math.random, handleStream, onConnectionChange } = parts;
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
      // It is just being started: who starts it tells when it listens, and says what keeps it from that.
      pause = setTimeout(attempt, limits.backoff.maxMs);
      pause.unref();
      return;
    }
    let conversation: StreamHandler | null = null;
    let takenAt: number | null = null;
    current = openCall(to, limits, lease, {
      onReady(stream) {
        conversation = handleStream(stream);
      },
      onAccepted() {
        takenAt = performance.now();
        connected = true;
        log.info({ address: to }, 'the sidecar is connected');
        onConnectionChange?.(true);
      },
      onProposal: (proposal, bytes) => conversation?.onProposal(proposal, bytes),
      onClose(why) {
        current = null;
        conversation?.onClose();
        if (takenAt !== null && performance.now() - takenAt >= limits.stableAfterMs) failed = 0;
        if (connected) {
          connected = false;
          if (!closed) log.warn({ address: to, why }, 'the sidecar is gone');
          onConnectionChange?.(false);
        }
        later(why);
      },
    });
  }

  function later(why: string): void {
    if (closed || !lease.valid()) return;
    failed += 1;
    const ms = backoffDelay(failed, limits.backoff, random());
    // One that is just being started is no news.
    if (failed === WARN_AFTER_FAILURES)
      log.warn({ why }, 'the sidecar cannot be reached; it is dialled again and again');
    else log.debug({ why, pause_ms: Math.round(ms) }, 'the sidecar is dialled again');
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
