import { expect, it } from 'vitest';
import type { ClockSample } from '../../src/domain/database-time.ts';
import { Activation } from '../../src/main/activation.ts';
import { eventually } from '../support/clock.ts';

const LOOK_MS = 5;

/** A lock that `grant` grants, and a database whose clock is set by `state`. */
function standby() {
  const state = { hostAhead: 0, away: false };
  const waiting: { signal: AbortSignal; grant(): void }[] = [];
  const warnings: string[] = [];
  let renewed: (sample: ClockSample) => void = () => {};
  const sample = () => ({ sentAt: performance.now(), receivedAt: performance.now(), databaseNow: Date.now() });
  const activation = new Activation({
    lock: {
      onRenewed: (listener) => {
        renewed = listener;
      },
      acquire: (signal, accepts) =>
        new Promise((resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
          const grant = () => {
            if (accepts?.(sample()) === false) return;
            renewed(sample());
            resolve();
          };
          waiting.push({ signal, grant });
        }),
    },
    host: { wall: () => Date.now() + state.hostAhead, monotonic: () => performance.now() },
    readClock: async () => (state.away ? null : sample()),
    log: { debug() {}, info() {}, warn: (_, text) => warnings.push(text), error() {} },
    checkMs: LOOK_MS,
  });
  return { state, waiting, warnings, activation, stop: new AbortController() };
}

it('returns the reading of the database clock that was taken with the lock', async () => {
  const { activation, waiting, stop } = standby();
  const active = activation.acquire(stop.signal);
  await eventually(() => waiting.length === 1);
  waiting[0]?.grant();
  expect(Math.abs(((await active)?.databaseNow ?? 0) - Date.now())).toBeLessThan(10_000);
});

it('withdraws while it waits when the clock becomes wrong, and requests the lock again when it is right', async () => {
  const { activation, waiting, state, warnings, stop } = standby();
  const active = activation.acquire(stop.signal);
  await eventually(() => waiting.length === 1);
  state.hostAhead = -61_000;
  await eventually(() => waiting[0]?.signal.aborted);
  expect(Math.round((activation.untrustedOffsetMs() ?? 0) / 1000)).toBe(-61);
  expect(warnings).toHaveLength(1);
  state.hostAhead = -59_000;
  await eventually(() => waiting.length === 2);
  expect(activation.untrustedOffsetMs()).toBeNull();
  waiting[1]?.grant();
  await active;
});

it('requests the lock of a server whose clock it cannot read', async () => {
  const { activation, waiting, state, stop } = standby();
  state.away = true;
  const active = activation.acquire(stop.signal);
  await eventually(() => waiting.length === 1);
  waiting[0]?.grant();
  await active;
});

it('does not become active when the server returns and the clock proves wrong', async () => {
  const { activation, waiting, state, warnings, stop } = standby();
  state.away = true;
  state.hostAhead = 61_000;
  const active = activation.acquire(stop.signal);
  await eventually(() => waiting.length === 1);
  waiting[0]?.grant();
  await eventually(() => waiting[0]?.signal.aborted);
  expect(Math.round((activation.untrustedOffsetMs() ?? 0) / 1000)).toBe(61);
  expect(warnings).toHaveLength(1);
  state.hostAhead = 0;
  await eventually(() => waiting.length >= 2);
  waiting.at(-1)?.grant();
  await active;
});

it('stops waiting when it is stopped, for the clock or for the lock', async () => {
  for (const hostAhead of [0, 90_000]) {
    const { activation, state, warnings, waiting, stop } = standby();
    state.hostAhead = hostAhead;
    const active = activation.acquire(stop.signal);
    await eventually(() => waiting.length + warnings.length === 1);
    stop.abort(new Error('stopping'));
    await expect(active).rejects.toThrow(/stopping|abort/i);
  }
});
