import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { Nemesis } from './nemesis.ts';

const seed = Number(process.env.SEED ?? 20_261_126);
const rounds = Number(process.env.ROUNDS ?? 6);

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
      await nemesis.round(random);
    },
  );

  it('lose nothing that was acknowledged, and do nothing twice', async () => {
    await nemesis.verify();
    expect(nemesis.log.length).toBeGreaterThan(rounds);
  });
});
