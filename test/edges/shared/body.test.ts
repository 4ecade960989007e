import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { BODY_MS, readBody } from '../../../src/edges/shared/body.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const slow = () => {
  const stream = new PassThrough();
  const headers = { 'content-type': 'application/json', 'content-length': '7' };
  return { stream, request: Object.assign(stream, { headers }) as unknown as IncomingMessage };
};

it('a body that is not complete in time is refused', async () => {
  const { stream, request } = slow();
  const read = expect(readBody(request)).rejects.toMatchObject({ name: 'TooSlow' });
  stream.write('{"a"');
  await vi.advanceTimersByTimeAsync(BODY_MS);
  await read;
});

it('one that is complete just before is read', async () => {
  const { stream, request } = slow();
  const read = readBody(request);
  stream.write('{"a"');
  await vi.advanceTimersByTimeAsync(BODY_MS - 1);
  stream.end(':1}');
  await vi.advanceTimersByTimeAsync(1);
  expect(await read).toEqual({ ok: true, value: { a: 1 } });
});
