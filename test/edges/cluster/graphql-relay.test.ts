import { once } from 'node:events';
import { createClient } from 'graphql-ws';
import { describe, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { shardOf } from '../../../src/domain/shards.ts';
import { TenantHints } from '../../../src/edges/cluster/tenant-hints.ts';
import { defaultSocketLimits } from '../../../src/edges/graphql/socket-limits.ts';
import { makeCookies } from '../../../src/edges/shared/cookies.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { eventually } from '../../support/clock.ts';
import { startHttpService } from '../../support/http-service.ts';
import { impatient, namedHints, type TestNode } from './nodes.ts';
import { WebSocketNodes } from './web-socket-nodes.ts';

/** A WebSocket at the GraphQL edge of a node. */
interface Served {
  node: TestNode;
  address: string;
  requestId: unknown;
  ws: WebSocket;
  messages: string[];
  closed: [number, string] | null;
}

const PROTOCOL = 'graphql-transport-ws';
const sockets = new WebSocketServer({
  noServer: true,
  handleProtocols: (offered) => offered.has(PROTOCOL) && PROTOCOL,
});

const nodes = new WebSocketNodes<Served>((node, add) => (request, socket, head) => {
  sockets.handleUpgrade(request, socket, head, (ws) => {
    const { 'x-request-id': requestId } = request.headers;
    const one: Served = { node, address: node.addressOf(request), requestId, ws, messages: [], closed: null };
    add(one);
    ws.on('error', () => {});
    ws.on('message', (data) => one.messages.push(String(data)));
    ws.on('close', (code, reason) => {
      one.closed = [code, String(reason)];
    });
  });
});

const init = (tenant = nodes.cluster.tenantId) =>
  JSON.stringify({ type: 'connection_init', payload: { Authorization: `Bearer tenant ${tenant}` } });

async function open(node = nodes.here, protocols = [PROTOCOL]) {
  const ws = new WebSocket(`ws://127.0.0.1:${node.port}/graphql`, protocols);
  ws.on('error', () => {});
  const received: { data: string; binary: boolean }[] = [];
  ws.on('message', (data, binary) => received.push({ data: String(data), binary }));
  const closed = once(ws, 'close').then(([code, reason]) => [code, String(reason)]);
  await once(ws, 'open');
  return { ws, received, closed };
}

describe('a GraphQL connection', () => {
  it.each([
    ['another node', () => nodes.there],
    ['this node', () => nodes.here],
  ])('of a tenant of %s is relayed there by its first message', async (_, ownerOf) => {
    const owner = ownerOf();
    nodes.cluster.owners.give(nodes.cluster.shard, owner.id);
    const { ws, received, closed } = await open();
    expect(ws.protocol).toBe(PROTOCOL);
    // Sent at once: the second message arrives while the first one is being routed.
    ws.send(init());
    ws.send('{"type":"subscribe"}');
    const edge = await eventually(() => nodes.served[0]);
    await eventually(() => edge.messages.length === 2);
    expect(edge).toMatchObject({ node: owner, address: '127.0.0.1', messages: [init(), '{"type":"subscribe"}'] });
    expect(edge.requestId).toMatch(/^[0-9a-f-]{36}$/);
    edge.ws.send('{"type":"connection_ack"}');
    edge.ws.send(Buffer.from([1, 2]));
    await eventually(() => received.length === 2);
    expect(received).toEqual([
      { data: '{"type":"connection_ack"}', binary: false },
      { data: '\x01\x02', binary: true },
    ]);
    edge.ws.close(4_401, 'UNAUTHENTICATED: expired');
    expect(await closed).toEqual([4_401, 'UNAUTHENTICATED: expired']);
    await eventually(() => nodes.cluster.owners.inProgress(owner.id, nodes.cluster.shard) === 0);
    await eventually(() => nodes.here.edge.sizes().cluster_graphql_clients === 0);
    await eventually(() => nodes.here.edge.sizes().cluster_dialled_links === 0);
  });

  it.each([
    ['invalid JSON', '{'],
    ['another message', '{"type":"subscribe","payload":{"Authorization":"Bearer x"}}'],
    ['no credential', '{"type":"connection_init"}'],
    ['an unknown credential', '{"type":"connection_init","payload":{"authorization":"Bearer nonsense"}}'],
    ['a binary message', Buffer.from('{"type":"connection_init"}')],
  ])('that starts with %s is served here', async (_, message) => {
    const { ws } = await open();
    ws.send(message);
    const edge = await eventually(() => nodes.served[0]);
    await eventually(() => edge.messages.length === 1);
    expect(edge).toMatchObject({ node: nodes.here, messages: [String(message)] });
  });

  it('without the subprotocol is passed to the edge at once, which closes it', async () => {
    const ws = new WebSocket(`ws://127.0.0.1:${nodes.here.port}/graphql`);
    const edge = await eventually(() => nodes.served[0]);
    edge.ws.close(4_406, 'Subprotocol not acceptable');
    const [code] = await once(ws, 'close');
    expect(code).toBe(4_406);
  });

  it.each([
    ['another node', () => nodes.there],
    ['this node', () => nodes.here],
  ])('to %s is closed by the client with its code, or broken off', async (_, ownerOf) => {
    nodes.cluster.owners.give(nodes.cluster.shard, ownerOf().id);
    const first = await open();
    first.ws.send(init());
    await eventually(() => nodes.served[0]);
    first.ws.close(1_000, 'done');
    await eventually(() => nodes.served[0]?.closed);
    expect(nodes.served[0]?.closed).toEqual([1_000, 'done']);
    const second = await open();
    second.ws.send(init());
    await eventually(() => nodes.served[1]);
    second.ws.terminate();
    await eventually(() => nodes.served[1]?.closed);
    const third = await open();
    third.ws.send(init());
    const edge = await eventually(() => nodes.served[2]);
    edge.ws.terminate();
    expect((await third.closed)[0]).toBe(1_006);
  });

  it('that the client closes while it is routed leaves its shard', async () => {
    nodes.cluster.owners.give(nodes.cluster.shard, nodes.here.id);
    for (let n = 0; n < 5; n += 1) {
      const { ws, closed } = await open();
      ws.send(init());
      ws.close();
      await closed;
    }
    await eventually(() => nodes.cluster.owners.inProgress(nodes.here.id, nodes.cluster.shard) === 0);
    await eventually(() => nodes.here.edge.sizes().cluster_graphql_clients === 0);
  });

  it('without a first message is closed after the time limit of the edge', async () => {
    const impatient = await nodes.start({ graphqlLimits: { ...defaultSocketLimits, maxPayload: 1_000, initMs: 20 } });
    const { closed } = await open(impatient);
    expect(await closed).toEqual([4_408, 'Connection initialisation timeout']);
    expect(nodes.served).toEqual([]);
  });

  it('with a longer message than allowed is closed, before and after the first', async () => {
    const strict = await nodes.start({ graphqlLimits: { ...defaultSocketLimits, maxPayload: 1_000 } });
    const early = await open(strict);
    early.ws.send('x'.repeat(1_001));
    expect((await early.closed)[0]).toBe(1_009);
    const late = await open(strict);
    late.ws.send(init());
    await eventually(() => nodes.served[0]);
    late.ws.send('x'.repeat(1_001));
    expect((await late.closed)[0]).toBe(1_009);
    await eventually(() => nodes.served[0]?.closed);
  });

  it.each([
    ['has no owner', () => nodes.cluster.owners.give(nodes.cluster.shard, undefined)],
    ['has an owner that cannot be reached', () => nodes.there.edge.abort()],
  ])('whose tenant %s is closed with the advice to try again', async (_, arrange) => {
    arrange();
    const { ws, closed } = await open(await nodes.start(impatient));
    ws.send(init());
    expect((await closed)[0]).toBe(1_013);
  });

  it('whose tenant cannot be found during a store outage is closed with the advice to try again', async () => {
    const fails = () => Promise.reject(new StoreUnavailable('away'));
    const other = await nodes.start({ hints: { ...namedHints, ofCredential: fails } as never });
    const { ws, closed } = await open(other);
    ws.send(init());
    expect((await closed)[0]).toBe(1_013);
  });

  it('is sent to the new owner if this node has outdated owners', async () => {
    const third = await nodes.start();
    nodes.cluster.owners.freeze(nodes.here.id);
    nodes.cluster.owners.give(nodes.cluster.shard, third.id);
    (await open()).ws.send(init());
    expect((await eventually(() => nodes.served[0])).node).toBe(third);
  });

  const breaking = async () => {
    const node = await nodes.cluster.start(() => ({ upgrade: (_request, socket) => void socket.destroy() }));
    nodes.cluster.owners.give(nodes.cluster.shard, node.id);
  };
  it.each([
    ['cannot be reached', () => nodes.there.edge.abort()],
    ['ends during the handshake', breaking],
  ])('whose owner %s waits for the node that takes over', async (_, arrange) => {
    await arrange();
    const { ws } = await open();
    ws.send(init());
    ws.send('{"type":"subscribe"}');
    await eventually(() => nodes.cluster.owners.refreshes > 1);
    const heir = await nodes.start();
    nodes.cluster.owners.give(nodes.cluster.shard, heir.id);
    const edge = await eventually(() => nodes.served[0]);
    await eventually(() => edge.messages.length === 2);
    expect(edge).toMatchObject({ node: heir, messages: [init(), '{"type":"subscribe"}'] });
  });

  it('carries large amounts both ways with back-pressure', async () => {
    const { ws, received } = await open();
    ws.send(init());
    const edge = await eventually(() => nodes.served[0]);
    const text = 'x'.repeat(200_000);
    for (let n = 0; n < 50; n += 1) {
      ws.send(text);
      edge.ws.send(text);
    }
    await eventually(() => edge.messages.length === 51 && received.length === 50);
    ws.pause();
    for (let n = 0; n < 100; n += 1) edge.ws.send(text);
    await eventually(() => edge.ws.bufferedAmount > 0);
    ws.resume();
    await eventually(() => received.length === 150);
  });

  it('answers pings of the edge while the client is there', async () => {
    const { ws } = await open();
    ws.send(init());
    const edge = await eventually(() => nodes.served[0]);
    await eventually(() => edge.messages.length === 1);
    const ponged = once(edge.ws, 'pong');
    edge.ws.ping('data');
    expect(String((await ponged)[0])).toBe('data');
    ws.ping();
    await once(ws, 'pong');
  });

  it('is closed when this node stops', async () => {
    const { ws, closed } = await open();
    ws.send(init());
    await eventually(() => nodes.served[0]);
    await nodes.here.edge.close();
    expect(await closed).toEqual([1_001, 'the service is shutting down']);
  });
});

it('the GraphQL edge answers a client of another node', async () => {
  const service = await startHttpService();
  const { identity, services, rateLimiter, clock } = service;
  const hints = new TenantHints({
    ...{
      identity,
      services,
      rateLimiter,
      cookies: makeCookies({ secure: false, clock }),
      addressOf: () => '192.0.2.1',
    },
  });
  const edges = () => ({ upgrade: service.graphql.upgrade });
  const [one, two] = [await nodes.cluster.start(edges, { hints }), await nodes.cluster.start(edges, { hints })];
  const { token, tenantId } = await service.owner();
  for (const owner of [one, two]) {
    nodes.cluster.owners.give(shardOf(tenantId), owner.id);
    const client = createClient({
      url: `ws://127.0.0.1:${one.port}/graphql`,
      webSocketImpl: WebSocket,
      connectionParams: { Authorization: `Bearer ${token}` },
      retryAttempts: 0,
    });
    const { value } = await client.iterate({ query: '{ __typename }' }).next();
    expect(value).toEqual({ data: { __typename: 'Query' } });
    await client.dispose();
  }
  await service.close();
});
