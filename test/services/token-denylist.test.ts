import { describe, expect, it } from 'vitest';
import type { ClockSample } from '../../src/domain/database-time.ts';
import { ServiceClock } from '../../src/domain/service-clock.ts';
import { loadAgentTokens } from '../../src/services/agent-tokens.ts';
import { loadRevocations } from '../../src/services/tokens.ts';
import { MemoryStore } from '../support/memory-store.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const START = Date.UTC(2026, 0, 1);

/** A service clock on a database whose clock the test sets in `world`. */
function world() {
  const time = { monotonic: 0, stepped: 0 };
  const sample = (): ClockSample => ({
    sentAt: time.monotonic,
    receivedAt: time.monotonic,
    databaseNow: START + time.monotonic + time.stepped,
  });
  const clock = new ServiceClock({ wall: () => START + time.monotonic, monotonic: () => time.monotonic }, sample());
  /** Runs for `ms`; renews the lease each second for up to a minute, and once at the end. */
  const run = (ms: number) => {
    const end = time.monotonic + ms;
    for (let n = 0; n < 60 && time.monotonic + 1_000 <= end; n++) {
      time.monotonic += 1_000;
      clock.observe(sample());
    }
    time.monotonic = end;
    clock.observe(sample());
  };
  return { clock, time, run };
}

/**
 * A clock that is a year ahead for this many milliseconds: reset after ten seconds, or followed by the service clock.
 */
const episodes: [string, number][] = [
  ['is not followed yet', 10_000],
  ['was followed', 40_000],
];

describe.each(episodes)('a clock that is a year ahead and %s', (_name, forMs) => {
  it('revalidates no revoked token when it is corrected', async () => {
    const { clock, time, run } = world();
    const store = new MemoryStore();
    const revocations = await loadRevocations(store.identity, clock);
    await revocations.add('one', clock.now() + HOUR);
    time.stepped = 365 * DAY;
    run(forMs);
    await revocations.add('other', clock.reference() + HOUR);
    expect((await loadRevocations(store.identity, clock)).has('one')).toBe(true);
    time.stepped = 0;
    run(1_000);
    expect(revocations.has('one')).toBe(true);
  });

  it('makes no presented agent token a token of a person when it is corrected', async () => {
    const { clock, time, run } = world();
    const store = new MemoryStore();
    const presented = await loadAgentTokens(store.identity, clock);
    await presented.add('u1', { id: 'one', expiresAt: clock.now() + HOUR });
    time.stepped = 365 * DAY;
    run(forMs);
    await presented.add('u1', { id: 'other', expiresAt: clock.reference() + HOUR });
    expect((await loadAgentTokens(store.identity, clock)).has('u1', { id: 'one' })).toBe(true);
    time.stepped = 0;
    run(1_000);
    expect(presented.has('u1', { id: 'one' })).toBe(true);
  });
});

it('an expired token is forgotten a day after its revocation', async () => {
  const { clock, run } = world();
  const revocations = await loadRevocations(new MemoryStore().identity, clock);
  await revocations.add('short', clock.now() + HOUR);
  await revocations.add('long', clock.now() + 3 * DAY);
  run(DAY - 1_000);
  await revocations.add('a', clock.now() + HOUR);
  expect(['short', 'long'].map((id) => revocations.has(id))).toEqual([true, true]);
  run(120_000);
  await revocations.add('b', clock.now() + HOUR);
  expect(['short', 'long'].map((id) => revocations.has(id))).toEqual([false, true]);
  expect(revocations.sizes().revoked_tokens).toBe(3);
});
