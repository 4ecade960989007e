import { Writable } from 'node:stream';
import { expect, it } from 'vitest';
import { guardWrites } from '../../src/domain/guard-writes.ts';

function guarded() {
  const written: string[] = [];
  const state = { may: true };
  const stream = new Writable({
    write(chunk, _encoding, done) {
      written.push(String(chunk));
      done();
    },
    writev(chunks, done) {
      written.push(chunks.map(({ chunk }) => String(chunk)).join(''));
      done();
    },
  });
  guardWrites(stream, () => state.may);
  return { stream, state, written };
}

it('passes bytes on while writing is allowed, one by one and together', () => {
  const { stream, written } = guarded();
  stream.write('a');
  stream.cork();
  stream.write('b');
  stream.write('c');
  stream.uncork();
  expect(written).toEqual(['a', 'bc']);
});

it('keeps back what was written while it was allowed and not sent yet, and cuts the stream', () => {
  const { stream, state, written } = guarded();
  stream.cork();
  stream.write('a');
  stream.write('b');
  state.may = false;
  stream.uncork();
  expect(written).toEqual([]);
  expect(stream.destroyed).toBe(true);
});

it('writes no last words with an end', () => {
  const { stream, state, written } = guarded();
  state.may = false;
  stream.end('a');
  expect(written).toEqual([]);
  expect(stream.destroyed).toBe(true);
});
