import { describe, expect, it } from 'vitest';
import { type ClockStep, ServiceClock } from '../../src/domain/service-clock.ts';
import { fc } from '../support/properties.ts';

const START = Date.UTC(2026, 0, 1);
const SECOND = 1_000;
const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 86_400_000;

/** A host and a database whose clocks the test sets; `run` advances time and samples every second. */
function world({ database = true, hostAhead = 0 } = {}) {
  const state = { monotonic: 5_000, hostAhead, databaseAhead: 0 };
  const steps: ClockStep[] = [];
  const truth = () => START + state.monotonic;
  const host = { wall: () => Math.floor(truth() + state.hostAhead), monotonic: () => state.monotonic };
  const sample = (roundTripMs = 0) => ({
    sentAt: state.monotonic - roundTripMs,
    receivedAt: state.monotonic,
    databaseNow: truth() + state.databaseAhead - roundTripMs / 2,
  });
  const clock = new ServiceClock(host, database ? sample() : null, (step) => steps.push(step));
  const turn = () => (database ? clock.observe(sample()) : clock.synchronize());
  return {
    ...{ state, steps, clock, truth, sample },
    run(milliseconds: number) {
      for (let passed = 0; passed < milliseconds; passed += SECOND) {
        state.monotonic += Math.min(SECOND, milliseconds - passed);
        turn();
      }
    },
  };
}

describe('the service clock on a database', () => {
  it('starts at the time of the database, for any error of the host clock', () => {
    const { clock, truth } = world({ hostAhead: 400 * DAY });
    expect(clock.now()).toBe(truth());
    expect(clock.hostOffset()).toBeCloseTo(400 * DAY, -1);
    expect(clock.isTrusted()).toBe(false);
  });

  it.each([-HOUR, 4 * MINUTE, 400 * DAY])(
    'is unaffected by a step of the host clock of %d ms, and reports the error',
    (by) => {
      const { clock, state, run, truth, steps } = world();
      run(MINUTE);
      state.hostAhead = by;
      run(5 * MINUTE);
      expect(Math.abs(clock.now() - truth())).toBeLessThan(5);
      expect(Math.abs(clock.reference() - truth())).toBeLessThan(5);
      expect(clock.hostOffset()).toBeCloseTo(by, -1);
      expect(clock.isTrusted()).toBe(false);
      expect(steps).toEqual([]);
    },
  );

  it('deviates by at most half the shortest round trip', () => {
    const { clock, state, sample, truth } = world();
    for (const roundTrip of [4_000, 900, 20, 3_000, 5_000]) {
      state.monotonic += roundTrip + 1;
      // All of the latency is on the way back: the largest error that a round trip can hide.
      clock.observe({ ...sample(roundTrip), databaseNow: truth() - roundTrip });
    }
    expect(Math.abs(clock.reference() - truth())).toBeLessThan(15);
  });

  it('follows a forward step of the database after 30 seconds, and its reference at once', () => {
    const { clock, state, run, truth, steps } = world();
    state.databaseAhead = HOUR;
    run(SECOND);
    expect(clock.reference() - truth()).toBeCloseTo(HOUR, -1);
    expect(clock.now() - truth()).toBeLessThan(5);
    expect(steps.map(({ what }) => what)).toEqual(['seen']);
    expect(clock.isTrusted()).toBe(false);
    run(31 * SECOND);
    expect(clock.now() - truth()).toBeCloseTo(HOUR, -1);
    expect(steps.map(({ what }) => what)).toEqual(['seen', 'corrected']);
    expect(clock.correction()).toBeCloseTo(0, -1);
  });

  it('continues after a suspended host lost monotonic time', () => {
    const { clock, state, run, truth } = world();
    // The monotonic clock did not advance, so the database and the wall clock appear to have been stepped.
    state.databaseAhead = state.hostAhead = 10 * MINUTE;
    run(MINUTE);
    expect(clock.now() - truth()).toBeCloseTo(10 * MINUTE, -1);
    expect(clock.isTrusted()).toBe(true);
  });
});

describe('the service clock on the wall clock of the host', () => {
  it('ignores a step that is undone within 30 seconds', () => {
    const { clock, state, run, truth, steps } = world({ database: false });
    run(MINUTE);
    state.hostAhead = 4 * MINUTE;
    run(29 * SECOND);
    state.hostAhead = 0;
    run(5 * MINUTE);
    expect(clock.now()).toBe(Math.floor(truth()));
    expect(steps.map(({ what }) => what)).toEqual(['seen']);
  });

  it('follows a persistent forward step at once', () => {
    const { clock, state, run, truth } = world({ database: false });
    state.hostAhead = 3 * DAY;
    run(31 * SECOND);
    expect(clock.now() - truth()).toBeCloseTo(3 * DAY, -1);
    expect(clock.isTrusted()).toBe(true);
  });

  it('slews a backward step: never backwards, each deadline at most a ninth late, exact in the end', () => {
    const { clock, state, run, truth } = world({ database: false });
    run(MINUTE);
    state.hostAhead = -HOUR;
    run(SECOND);
    // For timestamps of other hosts the correct time applies at once.
    expect(clock.reference() - truth()).toBeCloseTo(-HOUR, -1);
    for (let second = 0; second < 3 * 3_600; second += 20) {
      const before = clock.now();
      run(20 * SECOND);
      expect(clock.now() - before).toBeGreaterThanOrEqual(17_990);
    }
    run(8 * HOUR);
    expect(Math.abs(clock.correction())).toBeLessThan(5);
    expect(clock.isTrusted()).toBe(true);
  });

  it('slews a step of at most a second from the start', () => {
    const { clock, state, run, steps } = world({ database: false });
    for (const by of [900, -900]) {
      state.hostAhead += by;
      run(10 * SECOND);
      expect(Math.abs(clock.correction())).toBeLessThan(2);
    }
    expect(steps).toEqual([]);
  });

  it('waits again when one step follows another', () => {
    const { clock, state, run, truth, steps } = world({ database: false });
    state.hostAhead = HOUR;
    run(20 * SECOND);
    state.hostAhead = 2 * HOUR;
    run(20 * SECOND);
    expect(clock.now()).toBe(Math.floor(truth()));
    run(15 * SECOND);
    expect(clock.now() - truth()).toBeCloseTo(2 * HOUR, -1);
    expect(steps.map(({ what }) => what)).toEqual(['seen', 'seen', 'corrected']);
  });
});

const happening = fc.oneof(
  fc.record({
    kind: fc.constantFrom('host' as const, 'database' as const),
    by: fc.integer({ min: -400 * DAY, max: 400 * DAY }),
  }),
  fc.record({
    kind: fc.constantFrom('host' as const, 'database' as const),
    by: fc.integer({ min: -3_000, max: 3_000 }),
  }),
  fc.record({ kind: fc.constantFrom('sample' as const), by: fc.integer({ min: 0, max: 8_000 }) }),
  fc.record({ kind: fc.constantFrom('run' as const, 'pause' as const), by: fc.integer({ min: 0, max: 100_000 }) }),
);

it('time never goes backwards, for any sequence of steps, measurements and pauses', () => {
  fc.assert(
    fc.property(fc.constantFrom(true, false), fc.array(happening, { maxLength: 60 }), (database, all) => {
      const { clock, state, run, sample } = world({ database });
      let last = clock.now();
      for (const { kind, by } of all) {
        if (kind === 'host') state.hostAhead += by;
        else if (kind === 'database') state.databaseAhead += by;
        else if (kind === 'run') run(by);
        else state.monotonic += by;
        if (kind === 'sample' && database) clock.observe(sample(by));
        const now = clock.now();
        expect(now).toBeGreaterThanOrEqual(last);
        expect(Number.isInteger(now)).toBe(true);
        last = now;
      }
    }),
  );
});
