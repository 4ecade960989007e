import { expect, it } from 'vitest';
import { z } from 'zod';
import { storedForm } from '../../src/machines/stored-schemas.ts';

interface Context {
  fixed: { id: string };
  live: { count: number };
}
const stored = storedForm<Context>()({ id: z.string() }, { count: z.number() });

it('a stored context is read in its two parts', () => {
  expect(stored.read({ id: 'a', count: 1 })).toEqual({ fixed: { id: 'a' }, live: { count: 1 } });
});

it.each([
  [{ id: 1, count: 'x' }, 'id must be a string; count must be a number'],
  [{ id: 'a' }, 'count is required'],
  [{ id: 'a', count: 1, more: true }, 'more unknown field'],
])('a stored context that does not match is an error that names each member: %j', (members, message) => {
  expect(() => stored.read(members)).toThrow(new TypeError(message));
});
