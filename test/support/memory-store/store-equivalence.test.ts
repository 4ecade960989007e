import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Store } from '../../../src/store/contract.ts';
import { expectReached, fc, seed } from '../properties.ts';
import { slow } from '../slow.ts';
import { openSharedPglite } from '../store.ts';
import { commitCalls } from '../store-calls/commits.ts';
import { type Call, outcomeOf, StoreModel } from '../store-calls/model.ts';
import { readCalls } from '../store-calls/reads.ts';
import { recordCalls } from '../store-calls/records.ts';
import { MemoryDatabase } from './database.ts';
import { openMemoryStore } from './store.ts';

let opened: Awaited<ReturnType<typeof openSharedPglite>>;
beforeAll(async () => {
  opened = await openSharedPglite();
});
afterAll(() => opened.close());

/** With one statement that deletes all rows: truncating so many tables takes ten times as long. */
async function empty(): Promise<void> {
  const { database } = opened.backend;
  const text = `select string_agg(format('%s as (delete from %s)', 'gone_' || relname, relname), ', ') as sections
    from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace and relname <> 'migrations'`;
  const [row] = await database.read<{ sections: string }>({ text });
  await database.write({ text: `with ${row?.sections} select 1 as one` });
}

/** Split into several tests, so that each finishes well within the time limit. */
const PARTS = Array.from({ length: 24 }, (_, n) => n + 1);
const calls = fc.array(fc.oneof(...commitCalls, ...recordCalls), { minLength: 8, maxLength: 25 });

describe('the store in memory', () => {
  const reached = { answers: 0, refusals: 0, losses: 0 };
  let run = 0;

  async function compare(call: Call, memory: Store, before: readonly string[]): Promise<void> {
    const expected = await outcomeOf(call, opened.backend.store);
    expect(await outcomeOf(call, memory), [...before, call.name].join('\n')).toEqual(expected);
    const text = JSON.stringify(expected);
    reached[text.includes('"refused"') ? 'refusals' : 'answers'] += 1;
    if (text.startsWith('{"answer":{"lost":[{')) reached.losses += 1;
  }

  async function tryCalls(from: number): Promise<void> {
    const walk = fc.asyncProperty(calls, async (some) => {
      await empty();
      const memory = openMemoryStore(new MemoryDatabase());
      const world = new StoreModel(++run);
      const made: string[] = [];
      for (const planned of some) {
        const call = planned(world);
        await compare(call, memory, made);
        made.push(call.name);
      }
      for (const question of readCalls(world)) await compare(question, memory, made);
    });
    await fc.assert(walk, { numRuns: 1, seed: from, endOnFailure: true });
  }

  // A new database compiles for seconds at its first statements, which must not count towards the limit of the first part.
  beforeAll(() => tryCalls(seed));

  it.each(PARTS)('returns and refuses the same as the database (part %i)', slow, (part) => tryCalls(seed + part));

  it('was called with inputs that succeed, are refused and conflict', () => {
    expectReached(() => expect(Math.min(...Object.values(reached))).toBeGreaterThan(5));
  });
});
