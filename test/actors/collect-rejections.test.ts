import { expect, it } from 'vitest';
import { collectRejections } from '../../src/actors/collect-rejections.ts';

it('names the items that failed, in their order, after all others are done', async () => {
  const done: number[] = [];
  const slow = Promise.withResolvers<void>();
  const failed = collectRejections([1, 2, 3, 4], async (item) => {
    if (item === 4) {
      slow.resolve();
      throw new Error('four');
    }
    if (item === 2) {
      await slow.promise;
      throw new Error('two');
    }
    done.push(item);
  });
  expect(await failed).toEqual([
    { item: 2, reason: new Error('two') },
    { item: 4, reason: new Error('four') },
  ]);
  expect(done).toEqual([1, 3]);
  expect(await collectRejections([], () => Promise.reject(new Error('never')))).toEqual([]);
});
