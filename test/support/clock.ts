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

/** Polls until `check` gives something truthy; fails after `withinMs` of real time. */
export async function eventually<T>(check: () => T | Promise<T>, withinMs = 10_000): Promise<NonNullable<T>> {
  const until = Date.now() + withinMs;
  for (;;) {
    let last: unknown;
    try {
      const value = await check();
      if (value) return value as NonNullable<T>;
    } catch (error) {
      last = error;
    }
    if (Date.now() > until) throw new Error(`not within ${withinMs} ms: ${last ?? check.toString().slice(0, 200)}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
