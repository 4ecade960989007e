import { EventEmitter, once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import { DeferredEdge } from '../../src/main/deferred-edge.ts';
import { newId } from '../../src/main/ids.ts';
import { eventually } from '../support/clock.ts';

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** An edge that records what reaches it, and the promise that loads it. */
function deferred() {
  const calls: string[] = [];
  const errors: object[] = [];
  const observed: unknown[][] = [];
  const loading = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
  // A test may reject it before the edge awaits it.
  for (const { promise } of loading) promise.catch(() => {});
  let opened = 0;
  const log = { error: (fields: object) => void errors.push(fields) };
  const edge = new DeferredEdge({
    ...{ route: '/edge', newId, log: log as never },
    observe: (...[route, method, status]) => void observed.push([route, method, status]),
    async open() {
      opened += 1;
      await loading[opened - 1]?.promise;
      return {
        listener: ({ url }: IncomingMessage) => {
          calls.push(`request ${url}`);
          if (url === '/throws') throw new Error('a defect');
        },
        upgrade: ({ url }: IncomingMessage) => void calls.push(`upgrade ${url}`),
        endTenants: () => void calls.push('endTenants'),
        sizes: () => ({ entries: 1 }),
        close: async () => void calls.push('close'),
      };
    },
  });
  return { edge, calls, errors, observed, loading, opened: () => opened };
}

/** Serves `edge`, and returns a client of it: resolves with the status and the body of a response. */
async function served(edge: ReturnType<typeof deferred>['edge']) {
  const server = createServer(edge.listener);
  server.on('upgrade', (...upgrade) => edge.upgrade(...upgrade));
  closing.push(() => void server.close().closeAllConnections());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return async (path: string, { headers = {}, body = '' } = {}) => {
    const sent = request({ host: '127.0.0.1', port, path, headers, method: body === '' ? 'GET' : 'POST' });
    sent.end(body);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    return { status: response.statusCode, body: JSON.parse(await text(response)) };
  };
}
const UPGRADE = { headers: { Connection: 'Upgrade', Upgrade: 'websocket' } };

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
    loading[0].resolve();
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
    loading[0].resolve();
    await edge.load();
    expect(calls).toEqual([]);
  });

  it('refuses the requests that wait when it is closed, and later ones, which load nothing', async () => {
    const { edge, calls, loading, opened, observed } = deferred();
    const send = await served(edge);
    const waiting = [send('/1', { body: 'x'.repeat(100_000) }), send('/2', UPGRADE)];
    await eventually(() => opened() === 1);
    const closed = edge.close();
    loading[0].resolve();
    await closed;
    const refused = { status: 503, body: expect.objectContaining({ code: 'OVERLOADED' }) };
    expect(await Promise.all(waiting)).toEqual([refused, refused]);
    expect(await send('/3', UPGRADE)).toEqual(refused);
    expect(calls).toEqual(['close']);
    expect(observed).toEqual([['/edge', 'POST', 503]]);

    const unused = deferred();
    await unused.edge.close();
    await unused.edge.load();
    expect(await (await served(unused.edge))('/4')).toEqual(refused);
    expect([unused.opened(), unused.calls]).toEqual([0, []]);
  });

  it('refuses requests with an internal error and logs it if its modules cannot be loaded, and tries again', async () => {
    const { edge, calls, errors, loading, observed } = deferred();
    const send = await served(edge);
    const error = new Error('too many open files');
    loading[0].reject(error);
    const internal = { status: 500, body: expect.objectContaining({ code: 'INTERNAL', detail: 'Internal error.' }) };
    const response = await send('/1');
    expect(response).toEqual(internal);
    expect(errors).toEqual([
      { err: error, route: '/edge' },
      { err: error, operation: '/edge', request_id: response.body.request_id },
    ]);
    expect(observed).toEqual([['/edge', 'GET', 500]]);
    loading[1].resolve();
    await edge.load();
    expect(edge.edge).not.toBeNull();
    edge.listener(requestOf('/2'), responseOf());
    expect(calls).toEqual(['request /2']);
    await edge.close();
  });

  it('refuses an upgrade likewise', async () => {
    const { edge, errors, loading } = deferred();
    const send = await served(edge);
    loading[0].reject(new Error('too many open files'));
    expect(await send('/1', UPGRADE)).toMatchObject({ status: 500, body: { code: 'INTERNAL' } });
    expect(errors).toHaveLength(2);
  });

  it('answers a waiting request that fails in it', async () => {
    const { edge, calls, errors, loading, opened } = deferred();
    const send = await served(edge);
    const waiting = send('/throws');
    await eventually(() => opened() === 1);
    loading[0].resolve();
    expect(await waiting).toMatchObject({ status: 500, body: { code: 'INTERNAL' } });
    expect([calls, errors.length]).toEqual([['request /throws'], 1]);
  });
});
