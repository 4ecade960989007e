import type { ClientRequest, IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { BodyMemory, RequestBody } from '../../../src/edges/cluster/request-body.ts';
import { textOf } from './nodes.ts';

/** A chunked request that has sent `text`, and its body, which was sent to a first target. */
async function bodyOf(text: string, memory: BodyMemory): Promise<RequestBody> {
  const request = Object.assign(new PassThrough(), { headers: { 'transfer-encoding': 'chunked' } });
  request.end(text);
  const body = new RequestBody(request as unknown as IncomingMessage, memory);
  expect(await sent(body)).toBe(text);
  return body;
}

/** The text that a target receives. */
function sent(body: RequestBody): Promise<string> {
  const target = Object.assign(new PassThrough(), { flushHeaders() {} });
  body.sendTo(target as unknown as ClientRequest);
  return textOf(target);
}

it('a body is kept in the memory that is left, and can be sent again', async () => {
  const memory = new BodyMemory(10);
  const first = await bodyOf('1234567', memory);
  expect([first.isReplayable, memory.bytes]).toEqual([true, 7]);
  expect(await sent(first)).toBe('1234567');
  const second = await bodyOf('12345', memory);
  expect([second.isReplayable, memory.bytes]).toEqual([false, 7]);
  first.forget();
  expect([first.isReplayable, memory.bytes]).toEqual([false, 0]);
  first.forget();
  second.forget();
  expect(memory.bytes).toBe(0);
  expect((await bodyOf('12345', memory)).isReplayable).toBe(true);
});

it('a body of more than 64 KiB is passed on, and not kept', async () => {
  const memory = new BodyMemory();
  const body = await bodyOf('x'.repeat(64 * 1024 + 1), memory);
  expect([body.isReplayable, memory.bytes]).toEqual([false, 0]);
});
