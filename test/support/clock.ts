import { inject } from 'vitest';
import type { Clock } from '../../src/domain/clock.ts';

/** A clock that the test sets. */
export interface TestClock extends Clock {
  advance(milliseconds: number): void;
  set(to: number): void;
}

export function testClock(start = Date.UTC(2026, 0, 1)): TestClock {
  let now = start;
  return {
    now: () => now,
    advance: (milliseconds) => {
      now += milliseconds;
    },
    set: (to) => {
      now = to;
    },
  };
}

const FIRST_PAUSE_MS = 10;
/** Polling often uses a service, which needs the processor to make progress. */
const MAX_PAUSE_MS = 50;

/**
 * Polls until `check` returns something truthy, with increasing pauses; fails after `withinMs` of real time, by default
 * almost the whole time limit of a test.
 */
export async function eventually<T>(check: () => T | Promise<T>, withinMs = inject('pollMs')): Promise<NonNullable<T>> {
  const until = Date.now() + withinMs;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 1.25)) {
    let last: unknown;
    const isLast = Date.now() > until;
    try {
      const value = await check();
      if (value) return value as NonNullable<T>;
    } catch (error) {
      last = error;
    }
    if (isLast) throw new Error(`not within ${withinMs} ms: ${last ?? check.toString().slice(0, 200)}`);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/** The outcome of `work`; rejects after `withinMs` of real time, with a text that names what was waited for. */
export async function within<T>(work: Promise<T>, what: () => string, withinMs: number): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`not within ${withinMs} ms: ${what()}`)), withinMs);
  return Promise.race([work, late.promise]).finally(() => clearTimeout(timer));
}

/**
 * Runs several turns of the event loop, so that everything that is ready in this process is done, including data in
 * loopback sockets. Used to assert that nothing happens: unlike a pause, it does not depend on speed.
 */
export async function eventLoopTurns(turns = 50): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve));
}
