import type { CognitionProposal } from '#proto/cognition/v1/runtime_pb.js';
import type { Lease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import type { Milliseconds } from '../../domain/values.ts';
import { type Call, call } from './call.ts';
import type { SidecarLimits } from './limits.ts';

/** What is done with a stream that stands. */
export interface Conversation {
  heard(proposal: CognitionProposal, bytes: number): void;
  /** The stream is gone: nothing more can be said. */
  over(): void;
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
  converse(call: Call): Conversation;
  /** A stream stands that the sidecar took, or does not any more. */
  changed?(connected: boolean): void;
}

export interface Dialler {
  connected(): boolean;
  /** Dials at once, where nothing stands and nothing is being tried. */
  again(): void;
  close(): void;
}

const WORTH_A_WORD = 4;

/** The pause before attempt number `failed` + 1: doubled each time, half of it by chance, so that many do not come at once. */
export function pauseAfter(
  failed: number,
  { firstMs, mostMs }: SidecarLimits['backoff'],
  random: number,
): Milliseconds {
  const whole = Math.min(mostMs, firstMs * 2 ** Math.min(failed - 1, 30));
  return whole / 2 + (whole / 2) * random;
}

/** Keeps a stream to the sidecar for as long as the service lives. */
export function dial(parts: DiallerParts): Dialler {
  const { address, limits, lease, log, random = Math.random, converse, changed } = parts;
  let current: Pick<Call, 'hangUp'> | null = null;
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
      pause = setTimeout(attempt, limits.backoff.mostMs);
      pause.unref();
      return;
    }
    let conversation: Conversation | null = null;
    let takenAt: number | null = null;
    current = call(to, limits, lease, {
      ready(stream) {
        conversation = converse(stream);
      },
      taken() {
        takenAt = performance.now();
        connected = true;
        log.info({ address: to }, 'the sidecar is connected');
        changed?.(true);
      },
      heard: (proposal, bytes) => conversation?.heard(proposal, bytes),
      over(why) {
        current = null;
        conversation?.over();
        if (takenAt !== null && performance.now() - takenAt >= limits.steadyMs) failed = 0;
        if (connected) {
          connected = false;
          if (!closed) log.warn({ address: to, why }, 'the sidecar is gone');
          changed?.(false);
        }
        later(why);
      },
    });
  }

  function later(why: string): void {
    if (closed || !lease.valid()) return;
    failed += 1;
    const ms = pauseAfter(failed, limits.backoff, random());
    // One that is just being started is no news.
    if (failed === WORTH_A_WORD) log.warn({ why }, 'the sidecar cannot be reached; it is dialled again and again');
    else log.debug({ why, pause_ms: Math.round(ms) }, 'the sidecar is dialled again');
    pause = setTimeout(attempt, ms);
    pause.unref();
  }

  attempt();
  return {
    connected: () => connected,
    again() {
      if (pause === null || closed) return;
      clearTimeout(pause);
      attempt();
    },
    close() {
      closed = true;
      if (pause !== null) clearTimeout(pause);
      current?.hangUp('the service is shutting down');
    },
  };
}
