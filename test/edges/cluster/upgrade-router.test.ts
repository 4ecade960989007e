import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { v7 } from 'uuid';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { refuseUpgrade } from '../../../src/edges/shared/upgrade.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { eventually } from '../../support/clock.ts';
import { linkTls } from './links.ts';
import { namedHints, TestCluster, type TestNode } from './nodes.ts';

/** A WebSocket at the edge of a node. */
interface Served {
  node: TestNode;
  request: IncomingMessage;
  address: string;
  ws: WebSocket;
}

let cluster: TestCluster;
let served: Served[];
let here: TestNode;
let there: TestNode;
const sockets = new WebSocketServer({ noServer: true });

const local = (node: () => TestNode) => ({
  upgrade: ((request, socket, head) => {
    const address = node().addressOf(request);
    if (request.url?.startsWith('/refused'))
      return refuseUpgrade(request, socket, { code: 'NOT_FOUND', detail: 'Nothing.' }, { newId: () => v7() });
    sockets.handleUpgrade(request, socket, head, (ws) => {
      served.push({ node: node(), request, address, ws });
      ws.on('message', (data, binary) => ws.send(data, { binary }));
    });
  }) satisfies (...given: Parameters<TestNode['edge']['upgrade']>) => void,
});

beforeEach(async () => {
  cluster = new TestCluster();
  served = [];
  here = await cluster.start(local);
  there = await cluster.start(local);
  cluster.owners.give(cluster.shard, there.id);
});
afterEach(async () => {
  for (const { ws } of served) ws.terminate();
  await cluster.close();
});

const path = (rest = '') => `/ws/state?tenant=${cluster.tenantId}${rest}`;
const open = async (url = path(), node = here, options: object = {}): Promise<WebSocket> => {
  const ws = new WebSocket(`ws://127.0.0.1:${node.port}${url}`, options);
  await once(ws, 'open');
  return ws;
};
const statusOf = async (url = path(), node = here): Promise<[number, string]> => {
  const ws = new WebSocket(`ws://127.0.0.1:${node.port}${url}`);
  const [, response] = (await once(ws, 'unexpected-response')) as [unknown, IncomingMessage];
  let body = '';
  for await (const chunk of response) body += chunk;
  return [response.statusCode ?? 0, JSON.parse(body).code];
};

describe('an upgrade', () => {
  it('is served by the owner of its tenant, with its headers and the client’s address', async () => {
    const ws = await open(path('&token=x'), here, {
      headers: { 'X-Twinkeep-Client-Address': '192.0.2.66', 'X-Other': 'ä', Origin: 'https://example.org' },
    });
    expect(served).toMatchObject([{ node: { id: there.id }, address: '127.0.0.1' }]);
    expect(served[0]?.request.url).toBe(path('&token=x'));
    expect(served[0]?.request.headers).toMatchObject({
      ...{ host: `127.0.0.1:${here.port}`, origin: 'https://example.org', 'x-other': 'ä' },
      'x-twinkeep-client-address': '127.0.0.1',
    });
    const text = 'x'.repeat(1_000_000);
    ws.send(text);
    expect(String((await once(ws, 'message'))[0])).toBe(text);
    ws.close(4_000, 'bye');
    const [code, reason] = await once(served[0]?.ws as WebSocket, 'close');
    expect([code, String(reason)]).toEqual([4_000, 'bye']);
    await eventually(() => here.edge.sizes().cluster_dialled_links === 0);
    expect(cluster.owners.inProgress(there.id, cluster.shard)).toBe(0);
  });

  const ownPath = () => {
    cluster.owners.give(cluster.shard, here.id);
    return path();
  };
  it.each([
    ['without a tenant', () => '/ws/state'],
    ['of a tenant of this node', ownPath],
    ['of MQTT, which is routed by its CONNECT', () => `/mqtt?tenant=${cluster.tenantId}`],
  ])('%s is served here', async (_, url) => {
    await open(url(), here, { headers: { 'X-Twinkeep-Client-Address': '192.0.2.66' } });
    expect(served).toMatchObject([{ node: { id: here.id }, address: '127.0.0.1' }]);
    expect(served[0]?.request.headers).not.toHaveProperty('x-twinkeep-client-address');
    expect(cluster.owners.inProgress(here.id, cluster.shard)).toBe(0);
  });

  it('over TLS between the nodes is served', async () => {
    const [one, two] = [await cluster.start(local, { tls: linkTls }), await cluster.start(local, { tls: linkTls })];
    cluster.owners.give(cluster.shard, two.id);
    const ws = await open(path(), one);
    ws.send('hello');
    expect(String((await once(ws, 'message'))[0])).toBe('hello');
    expect(served[0]?.node).toBe(two);
  });

  it('that the owner refuses has the owner’s response', async () => {
    expect(await statusOf(`/refused?tenant=${cluster.tenantId}`)).toEqual([404, 'NOT_FOUND']);
    await eventually(() => here.edge.sizes().cluster_dialled_links === 0);
  });

  it('of a tenant without an owner, or with one that cannot be reached, is 503', async () => {
    cluster.owners.give(cluster.shard, undefined);
    expect(await statusOf()).toEqual([503, 'OVERLOADED']);
    cluster.owners.give(cluster.shard, there.id);
    there.edge.abort();
    expect(await statusOf()).toEqual([503, 'OVERLOADED']);
    const fails = () => Promise.reject(new StoreUnavailable('away'));
    const other = await cluster.start(local, { hints: { ...namedHints, ofUpgrade: fails } as never });
    expect(await statusOf(path(), other)).toEqual([503, 'STORE_UNAVAILABLE']);
  });

  it('is sent to the new owner if this node has outdated owners', async () => {
    const third = await cluster.start(local);
    cluster.owners.freeze(here.id);
    cluster.owners.give(cluster.shard, third.id);
    await open();
    expect(served.map(({ node }) => node.id)).toEqual([third.id]);
    cluster.owners.freeze(here.id);
    cluster.owners.give(cluster.shard, here.id);
    await open();
    expect(served.map(({ node }) => node.id)).toEqual([third.id, here.id]);
  });

  it('ends at the owner when the client breaks it, and at the client when the owner does', async () => {
    const first = await open();
    const atOwner = once(served[0]?.ws as WebSocket, 'close');
    first.terminate();
    await atOwner;
    const second = await open();
    served[1]?.ws.terminate();
    await once(second, 'close');
    await eventually(() => here.edge.sizes().cluster_dialled_links === 0);
  });

  it('carries one request: what follows it is not read as another one', async () => {
    const socket = connect(here.port, '127.0.0.1');
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
    });
    const head = `GET /refused?tenant=${cluster.tenantId} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n`;
    const second = `GET /v1/secret HTTP/1.1\r\nHost: x\r\nX-Twinkeep-Client-Address: 192.0.2.66\r\nX-Twinkeep-Shard: ${cluster.shard}\r\n\r\n`;
    socket.write(`${head}Content-Length: ${second.length}\r\n\r\n${second}${second}`);
    await once(socket, 'close');
    expect(received.match(/HTTP\/1\.1/g)).toEqual(['HTTP/1.1']);
    expect(received).toMatch(/^HTTP\/1.1 404 /);
  });

  it('is not accepted on a link for requests, nor a request on a link for an upgrade', async () => {
    const link = await cluster.link(there);
    link.write('GET /ws/state HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    await once(link.resume(), 'close');
    const other = await cluster.link(there, { kind: 'upgrade', shard: cluster.shard });
    other.write('GET /v1/devices HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(other.resume(), 'end');
    other.destroy();
    expect(served).toEqual([]);
    await eventually(() => cluster.owners.inProgress(there.id, cluster.shard) === 0);
  });
});
