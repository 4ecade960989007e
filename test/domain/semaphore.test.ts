import { expect, it } from 'vitest';
import { Semaphore } from '../../src/domain/semaphore.ts';

it('a semaphore runs as many calls as it has permits, the others in their order, also after a failure', async () => {
  const semaphore = new Semaphore(2);
  const started: number[] = [];
  const finish: ((error?: Error) => void)[] = [];
  const results = [0, 1, 2, 3].map((n) =>
    semaphore.run(() => {
      started.push(n);
      return new Promise<number>((resolve, reject) => {
        finish[n] = (error) => (error === undefined ? resolve(n) : reject(error));
      });
    }),
  );
  expect(started).toEqual([0, 1]);
  expect(semaphore.waiting).toBe(2);
  finish[1]?.(new Error('failed'));
  await expect(results[1]).rejects.toThrow('failed');
  await expect.poll(() => started).toEqual([0, 1, 2]);
  finish[0]?.();
  await expect.poll(() => started).toEqual([0, 1, 2, 3]);
  finish[3]?.();
  finish[2]?.();
  expect(await Promise.all([results[0], results[2], results[3]])).toEqual([0, 2, 3]);
  expect(await semaphore.run(async () => 'free')).toBe('free');
  expect(semaphore.waiting).toBe(0);
});
