import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { v7 } from 'uuid';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Actors } from '../../../src/actors/contract.ts';
import { parseResourceUri } from '../../../src/edges/mcp/resources.ts';
import { defaultSessionLimits, SessionRegistry } from '../../../src/edges/mcp/session-registry.ts';
import { StreamableHttpTransport } from '../../../src/edges/mcp/streamable-http-transport.ts';
import { NOTIFY_INTERVAL_MS, Subscriptions } from '../../../src/edges/mcp/subscriptions.ts';
import { httpExchangeOf } from '../../../src/edges/shared/http-exchange.ts';
import type { Caller } from '../../../src/operations/operation.ts';
import { makeLocalInvalidationBus } from '../../../src/services/invalidation-bus.ts';
import { eventLoopTurns, eventually } from '../../support/clock.ts';
import type { HttpService } from '../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

describe('a client of HTTP+SSE', () => {
  let service: HttpService;
  let mine: TestTenant;
  beforeEach(async () => {
    service = await startHttpServiceOnDatabase();
    mine = await makeTestTenant(service);
  });
  afterEach(() => service.close());

  const headers = () => ({ authorization: `Bearer ${mine.tokens.owner}` });
  /** Opens the stream and returns the URL for its messages. */
  async function stream() {
    const stop = new AbortController();
    const response = await fetch(`${service.url}/mcp`, { headers: headers(), signal: stop.signal });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const sent = Buffer.from((await reader.read()).value ?? []).toString();
    return { path: /data: (\S+)/.exec(sent)?.[1] ?? '', close: () => stop.abort() };
  }

  it('that disconnects during an invalid POST is answered that the session does not exist, without a fault', async () => {
    const undelivered: unknown[] = [];
    const receive = (error: unknown) => void undelivered.push(error);
    process.on('unhandledRejection', receive);
    const { path, close } = await stream();
    const wrong = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: {} });
    const more = { 'content-type': 'application/json', 'content-length': `${wrong.length}` };
    const posting = request(service.url + path, { method: 'POST', headers: { ...headers(), ...more } });
    const answered = new Promise<number>((resolve, reject) => {
      posting.on('response', (response) => resolve(response.resume().statusCode ?? 0)).on('error', reject);
    });
    const came = once(service.server, 'request');
    posting.write(wrong.slice(0, 10));
    await came;
    // Once a later request is answered, the session of this one was found and the rest of its body is awaited.
    await service.call('GET', '/v1/auth/me', { token: mine.tokens.owner });
    await eventLoopTurns();
    close();
    await eventually(() => service.mcp.counts().sessions === 0);
    posting.end(wrong.slice(10));
    expect(await answered).toBe(404);
    await eventLoopTurns();
    process.off('unhandledRejection', receive);
    expect(undelivered).toEqual([]);
  });

  it('that disconnects while it is authenticated leaves no session', async () => {
    const { users } = service.services;
    const { get } = users;
    let looked = 0;
    let go = () => {};
    const held = new Promise<void>((resolve) => {
      go = resolve;
    });
    users.cached = () => undefined;
    users.get = async (id) => {
      looked += 1;
      await held;
      return get.call(users, id);
    };
    const requested = request(`${service.url}/mcp`, { headers: headers() });
    requested.on('error', () => {});
    const left = once(service.server, 'connection').then(([socket]) => once(socket, 'close'));
    requested.end();
    await eventually(() => looked > 0);
    requested.destroy();
    await left;
    go();
    // The user of this request is loaded before that of the later request.
    await service.call('GET', '/v1/auth/me', { token: mine.tokens.owner });
    await eventLoopTurns();
    expect(service.mcp.counts().sessions).toBe(0);
  });
});

/** Session subscriptions without sign-in, and the transition subscribers that they registered. */
function sessionsOfTheirOwn() {
  const watchers = new Set<Parameters<Actors['subscribeTransitions']>[0]>();
  const onTransition: Actors['subscribeTransitions'] = (watcher) => {
    watchers.add(watcher);
    return () => watchers.delete(watcher);
  };
  const subscriptions = new Subscriptions({ subscribeTransitions: onTransition });
  const quiet = () => () => {};
  const sessions = new SessionRegistry(
    {
      clock: { now: () => 0 },
      ...{
        actors: { subscribe: quiet },
        apiKeys: { subscribe: quiet },
        invalidations: makeLocalInvalidationBus(),
        revocations: { subscribe: quiet },
        users: { subscribe: quiet },
      },
    } as never,
    {
      ...{ subscriptions, limits: defaultSessionLimits },
      statelessTransport: new StreamableHttpTransport({ session: false }),
      makeServer: () => ({}) as never,
      isIdle: () => false,
    },
  );
  const caller = {
    ...{ principal: { kind: 'user', id: 'u' }, user: { id: 'u' }, tenantId: 't', role: 'owner', scopes: null },
  } as unknown as Caller;
  const wire = new StreamableHttpTransport({ session: true });
  const session = sessions.open({ owner: 'o', caller, transport: wire as never });
  if (session === null) throw new Error('there is no room');
  return { sessions, subscriptions, watchers, wire, session };
}

it('a closed session has no subscriptions, although it requested some before', () => {
  const { sessions, subscriptions, watchers, session } = sessionsOfTheirOwn();
  const uri = parseResourceUri(`twin://plans/${v7()}`) as never;
  expect(subscriptions.add(session.subscriber, uri)).toBe(true);
  sessions.end(session);
  // The authorization to read it was still being checked.
  expect(subscriptions.add(session.subscriber, uri)).toBe(false);
  expect(watchers.size).toBe(0);
  sessions.close();
});

it('a client with much to read gets a change after reading the rest', async () => {
  const { sessions, subscriptions, watchers, wire, session } = sessionsOfTheirOwn();
  const server = createServer((requested, response) => {
    wire.openEventStream(httpExchangeOf(requested, response, { newId: v7 }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const id = v7();
  subscriptions.add(session.subscriber, parseResourceUri(`twin://plans/${id}`) as never);
  const asking = request({ port: (server.address() as AddressInfo).port });
  const answer = new Promise<IncomingMessage>((resolve) => asking.on('response', resolve));
  asking.end();
  const stream = await answer;
  stream.pause();
  const long = { jsonrpc: '2.0' as const, method: 'notifications/message', params: { data: 'x'.repeat(32 * 1024) } };
  // The socket buffers hold a few megabytes.
  while (wire.trySend(long)) await pause(1);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  for (const watcher of watchers) {
    watcher(
      { ref: { kind: 'plan', id }, snapshot: { value: null, context: { fixed: {}, live: {} } } } as never,
      {} as never,
      null,
    );
  }
  vi.advanceTimersByTime(3 * NOTIFY_INTERVAL_MS);
  vi.useRealTimers();
  let sent = '';
  stream.on('data', (chunk) => {
    sent = `${sent}${chunk}`.slice(-1_000);
  });
  stream.resume();
  await eventually(() => sent.includes(`twin://plans/${id}`));
  sessions.close();
  server.closeAllConnections();
  server.close();
});
