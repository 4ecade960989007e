import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { DeferredEdge } from '../../src/main/deferred-edge.ts';

/** An edge that records what reaches it, and the promise that loads it. */
function deferred() {
  const calls: string[] = [];
  const errors: object[] = [];
  const loading = Promise.withResolvers<void>();
  let opened = 0;
  const log = { error: (fields: object) => void errors.push(fields) };
  const edge = new DeferredEdge(async () => {
    opened += 1;
    await loading.promise;
    return {
      listener: ({ url }: IncomingMessage) => void calls.push(`request ${url}`),
      upgrade: ({ url }: IncomingMessage) => void calls.push(`upgrade ${url}`),
      endTenants: () => void calls.push('endTenants'),
      sizes: () => ({ entries: 1 }),
      close: async () => void calls.push('close'),
    };
  }, log as never);
  return { edge, calls, errors, loading, opened: () => opened };
}

const requestOf = (url: string): IncomingMessage => ({ url }) as IncomingMessage;

function responseOf(): ServerResponse {
  const response = Object.assign(new EventEmitter(), { destroyed: false, destroy: () => {} });
  response.destroy = () => {
    response.destroyed = true;
  };
  return response as never;
}

describe('an edge whose modules are loaded on demand', () => {
  it('is not loaded before it is needed', async () => {
    const { edge, calls, opened } = deferred();
    edge.endTenants(() => true);
    expect(edge.sizes()).toEqual({});
    await edge.close();
    expect([edge.edge, opened(), calls]).toEqual([null, 0, []]);
  });

  it('is loaded once, and then gets the requests and WebSockets that have waited, in order', async () => {
    const { edge, calls, loading, opened } = deferred();
    edge.listener(requestOf('/1'), responseOf());
    edge.upgrade(requestOf('/2'), new PassThrough(), Buffer.alloc(0));
    edge.listener(requestOf('/3'), responseOf());
    expect(calls).toEqual([]);
    loading.resolve();
    await edge.load();
    edge.listener(requestOf('/4'), responseOf());
    edge.upgrade(requestOf('/5'), new PassThrough(), Buffer.alloc(0));
    expect(opened()).toBe(1);
    expect(calls).toEqual(['request /1', 'upgrade /2', 'request /3', 'request /4', 'upgrade /5']);
    expect(edge.sizes()).toEqual({ entries: 1 });
  });

  it('does not get the requests of clients that have left', async () => {
    const { edge, calls, loading } = deferred();
    const response = responseOf();
    const socket = new PassThrough();
    edge.listener(requestOf('/1'), response);
    edge.upgrade(requestOf('/2'), socket, Buffer.alloc(0));
    response.destroy();
    socket.destroy(new Error('ECONNRESET'));
    loading.resolve();
    await edge.load();
    expect(calls).toEqual([]);
  });

  it('is closed before it gets a request that comes after the end', async () => {
    const { edge, calls, loading } = deferred();
    await edge.close();
    edge.listener(requestOf('/1'), responseOf());
    loading.resolve();
    await edge.load();
    expect(calls).toEqual(['close', 'request /1']);
  });

  it('ends connections and logs the error if its modules cannot be loaded', async () => {
    const { edge, errors, loading } = deferred();
    const response = responseOf();
    const socket = new PassThrough();
    edge.listener(requestOf('/1'), response);
    edge.upgrade(requestOf('/2'), socket, Buffer.alloc(0));
    const error = new Error('not installed');
    loading.reject(error);
    await expect(edge.load()).rejects.toBe(error);
    expect([response.destroyed, socket.destroyed, errors]).toEqual([true, true, [{ err: error }]]);
    await edge.close();
  });
});
