import { Problem } from '../../api/problem.ts';
import type { Tone } from '../../ui/tone.ts';

// One change for many devices: a request for each, some at a time.

/** The outcome for one device. */
export interface BulkOutcome {
  tone: Tone;
  text: string;
  /** Whether it stays so. A command that was dispatched has a later outcome. */
  isFinal: boolean;
  /** A page of the console. */
  href?: string;
}

export interface BulkControl {
  /** Whether no further request is to be sent. */
  isStopped(): boolean;
  report(deviceId: string, outcome: BulkOutcome): void;
}

/** Requests at once. */
const CONCURRENCY = 4;
/** After a 429 that names no time. */
const DEFAULT_WAIT_S = 1;

const waitSeconds = (seconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, seconds * 1_000));

/** Sends a request, and again whenever a rate limit refuses it, after the time that the service names. */
export async function whenAllowed<T>(
  send: () => Promise<T>,
  isStopped: () => boolean,
  wait: (seconds: number) => Promise<void> = waitSeconds,
): Promise<T> {
  for (;;) {
    try {
      return await send();
    } catch (thrown) {
      const isLimited = thrown instanceof Problem && thrown.code === 'RATE_LIMIT_EXCEEDED';
      if (!isLimited || isStopped()) throw thrown;
      await wait(Math.max(DEFAULT_WAIT_S, thrown.retryAfterS ?? 0));
      if (isStopped()) throw thrown;
    }
  }
}

/** Reports the outcome of each device. After a stop the others are reported as not changed. */
export async function runForEach(
  deviceIds: readonly string[],
  change: (deviceId: string) => Promise<BulkOutcome>,
  { isStopped, report }: BulkControl,
  wait?: (seconds: number) => Promise<void>,
): Promise<void> {
  const waiting = [...deviceIds];
  const work = async (): Promise<void> => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      const one = id;
      report(
        one,
        isStopped() ? STOPPED : await whenAllowed(() => change(one), isStopped, wait).catch((thrown) => failed(thrown)),
      );
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
}

export const STOPPED: BulkOutcome = { tone: 'quiet', text: 'not changed: stopped', isFinal: true };

/** The outcome of a request that failed. */
export const failed = (thrown: unknown): BulkOutcome =>
  thrown instanceof Problem && thrown.code === 'DRY_RUN_REQUIRED'
    ? { tone: 'warn', text: 'waits for a confirmation', isFinal: true, href: '/confirmations' }
    : { tone: 'bad', text: thrown instanceof Error ? thrown.message : 'failed', isFinal: true };
