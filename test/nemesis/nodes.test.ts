import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { Nemesis } from './nemesis.ts';

const seed = Number(process.env.SEED ?? 20_261_126);
/** A fault of up to 10 s, and the time until everything makes progress again. */
const ROUND_MS = process.env.ROUNDS === undefined ? 30_000 : 90_000;
const rounds = Number(process.env.ROUNDS ?? 3);
/** Faults that are over soon; `npm run nemesis` draws from all. */
const QUICK_FAULTS = ['kill', 'stop', 'pause below the lease', 'database unreachable'];

/** Mulberry32: the same faults for the same seed. */
function randomFrom(start: number): () => number {
  let state = start >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

if (process.env.ROUNDS !== undefined && inject('postgresUrl') === null) throw new Error('PostgreSQL is not installed');

describe.runIf(inject('postgresUrl'))(`three nodes with faults (SEED=${seed})`, () => {
  let nemesis: Nemesis;
  const random = randomFrom(seed);

  beforeAll(async () => {
    nemesis = await Nemesis.start({ nodes: 3, tenants: 3 });
  });
  afterAll(() => nemesis.close());

  it.each(Array.from({ length: rounds }, (_, n) => n + 1))(
    'round %i: only owners write, and all make progress',
    async () => {
      await nemesis.round(random, process.env.ROUNDS === undefined ? QUICK_FAULTS : undefined);
    },
    ROUND_MS,
  );

  it('lose nothing that was acknowledged, and do nothing twice', async () => {
    await nemesis.verify();
    expect(nemesis.log.length).toBeGreaterThan(rounds);
    if (process.env.ROUNDS !== undefined) process.stdout.write(`${nemesis.log.join('\n')}\n`);
  });
});
