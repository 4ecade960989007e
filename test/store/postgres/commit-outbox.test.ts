import { describe, expect, it } from 'vitest';
import { deviceCommit, newId, nextCommit } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';
import { commitCalls, outputTo } from './commit-calls.ts';

eachStore('a commit', (backend) => {
  const { actors, commitAll, outboxOf } = commitCalls(backend);

  describe('of outbox rows', () => {
    it('returns them in the order of writing, until they are delivered', async () => {
      const id = newId();
      const first = deviceCommit({ id, outbox: [0, 1, 2].map((n) => ({ n, output: outputTo(id) })) });
      await commitAll(first);
      const second = nextCommit(first, { outbox: [0, 1].map((n) => ({ n, output: outputTo(id) })) });
      await commitAll(second);
      expect(await outboxOf(id)).toEqual([
        [1, 0],
        [1, 1],
        [1, 2],
        [2, 0],
        [2, 1],
      ]);
      const pending = await actors().pendingOutbox(10_000, 0);
      expect(pending.find((row) => row.from.id === id)?.output).toEqual(outputTo(id));
      const places = pending.map((row) => row.seq);
      expect(places).toEqual(places.toSorted((a, b) => a - b));
      // Other tests may have left thousands of rows before these.
      const start = pending.at(-8)?.seq ?? 0;
      const last = pending.filter(({ seq }) => seq > start);
      for (const limit of [1, 3, last.length]) {
        const pages = [];
        for (let after = start, more = true; more; after = pages.at(-1)?.seq ?? after) {
          const page = await actors().pendingOutbox(limit, after);
          expect(page.length).toBeLessThanOrEqual(limit);
          pages.push(...page);
          more = page.length === limit;
        }
        expect(pages).toEqual(last);
      }
      const from = first.ref;
      await commitAll(nextCommit(second, { delivered: [{ from, version: 1, n: 0 }] }));
      await actors().commit([], { delivered: [{ from, version: 1, n: 2 }] });
      await actors().commit([deviceCommit()], { delivered: [{ from, version: 2, n: 0 }] });
      expect(await outboxOf(id)).toEqual([
        [1, 1],
        [2, 1],
      ]);
    });
  });
});
