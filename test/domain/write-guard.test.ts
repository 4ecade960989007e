import { Writable } from 'node:stream';
import { expect, it } from 'vitest';
import { guardWrites } from '../../src/domain/write-guard.ts';

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

it('passes bytes on while writing is allowed, separately and together', () => {
  const { stream, written } = guarded();
  stream.write('a');
  stream.cork();
  stream.write('b');
  stream.write('c');
  stream.uncork();
  expect(written).toEqual(['a', 'bc']);
});

it('withholds bytes that were written while allowed but not sent, and destroys the stream', () => {
  const { stream, state, written } = guarded();
  stream.cork();
  stream.write('a');
  stream.write('b');
  state.may = false;
  stream.uncork();
  expect(written).toEqual([]);
  expect(stream.destroyed).toBe(true);
});

it('discards the last chunk of `end`', () => {
  const { stream, state, written } = guarded();
  state.may = false;
  stream.end('a');
  expect(written).toEqual([]);
  expect(stream.destroyed).toBe(true);
});
