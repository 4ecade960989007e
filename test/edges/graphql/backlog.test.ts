import { expect, it } from 'vitest';
import { Backlog } from '../../../src/edges/graphql/backlog.ts';

it('keeps the newest of each subject for a slow client, and all in order for a fast one', async () => {
  const backlog = new Backlog<number>(() => {});
  for (let n = 0; n < 256; n++) backlog.push('lamp', n);
  for (let n = 256; n < 400; n++) backlog.push(n % 2 === 0 ? 'lamp' : 'lock', n);
  const notified: number[] = [];
  for (let n = 0; n < 258; n++) notified.push((await backlog.next()).value as number);
  expect(notified).toEqual([...Array.from({ length: 256 }, (_, n) => n), 398, 399]);
});

it('ends with the error that it is given, without what waits', async () => {
  let ended = 0;
  const backlog = new Backlog<number>(() => {
    ended += 1;
  });
  backlog.push('lamp', 1);
  backlog.fail(new Error('lost'));
  await expect(backlog.next()).rejects.toThrow('lost');
  expect(ended).toBe(1);
});

it('ends with a refusal for a client that reads nothing, and requests nothing more', async () => {
  let ended = 0;
  const backlog = new Backlog<number>(() => {
    ended += 1;
  });
  for (let n = 0; n < 11_000; n++) backlog.push(`lamp ${n}`, n);
  expect(ended).toBe(1);
  await expect(backlog.next()).rejects.toMatchObject({ extensions: { code: 'OVERLOADED' } });
  await backlog.return();
  expect(ended).toBe(1);
});
