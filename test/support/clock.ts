import { inject } from 'vitest';
import type { Clock } from '../../src/domain/clock.ts';

/** Time as the test says it is. */
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
/** What is asked is often a service that needs the processor to get there. */
const LAST_PAUSE_MS = 50;

/**
 * Polls until `check` gives something truthy, less often as time goes by; fails when it did not even after `withinMs` of real
 * time, by default nearly all that a test has.
 */
export async function eventually<T>(check: () => T | Promise<T>, withinMs = inject('pollMs')): Promise<NonNullable<T>> {
  const until = Date.now() + withinMs;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LAST_PAUSE_MS, pauseMs * 1.25)) {
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

/**
 * Lets the event loop go round, so that all that is ready in this process is done, what lies in loopback sockets too. To
 * assert that nothing comes of something: it depends on no speed, as a pause would.
 */
export async function eventLoopTurns(turns = 50): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve));
}
