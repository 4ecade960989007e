import { describe, expect, it } from 'vitest';
import { CoalescedReads } from '../../../src/store/postgres/coalesced-reads.ts';

/** Reads that the test completes one by one; each returns the data committed when it started. */
function database() {
  let committed = 0;
  const open: { end(): void; fail(): void }[] = [];
  return {
    open,
    commit: () => ++committed,
    read: () => {
      const seen = committed;
      return new Promise<number>((resolve, reject) => {
        open.push({ end: () => resolve(seen), fail: () => reject(new Error('away')) });
      });
    },
  };
}

const passes = () => new Promise((resolve) => setImmediate(resolve));

describe('concurrent reads of the same kind', () => {
  it('start at once when no read is in progress', async () => {
    const { read, open } = database();
    const reads = new CoalescedReads();
    for (const _ of [1, 2]) {
      const answer = reads.read('a', read);
      expect(open).toHaveLength(1);
      open.pop()?.end();
      expect(await answer).toBe(0);
      await passes();
    }
  });

  it('are collected while one runs, and then run once, after the last of them was requested', async () => {
    const { read, open, commit } = database();
    const reads = new CoalescedReads();
    const first = reads.read('a', read);
    const others = [reads.read('a', read), reads.read('a', read)];
    const own = commit();
    others.push(reads.read('a', read));
    expect(open).toHaveLength(1);
    open[0]?.end();
    expect(await first).toBe(0);
    await passes();
    expect(open).toHaveLength(2);
    const late = reads.read('a', read);
    open[1]?.end();
    expect(await Promise.all(others)).toEqual([own, own, own]);
    await passes();
    expect(open).toHaveLength(3);
    open[2]?.end();
    expect(await late).toBe(own);
  });

  it('of different kinds do not wait for each other', () => {
    const { read, open } = database();
    const reads = new CoalescedReads();
    void reads.read('a', read);
    void reads.read('b', read);
    expect(open).toHaveLength(2);
  });

  it('fail together, without affecting later reads', async () => {
    const { read, open } = database();
    const reads = new CoalescedReads();
    const first = reads.read('a', read);
    const second = reads.read('a', read);
    open[0]?.fail();
    await expect(first).rejects.toThrow('away');
    await passes();
    open[1]?.end();
    expect(await second).toBe(0);
  });
});
