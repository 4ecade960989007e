import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { v7 } from 'uuid';
import { describe, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { refuseUpgrade } from '../../../src/edges/shared/upgrade.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { eventually } from '../../support/clock.ts';
import { linkTls } from './links.ts';
import { impatient, namedHints, type TestNode } from './nodes.ts';
import { WebSocketNodes } from './web-socket-nodes.ts';

/** A WebSocket at the edge of a node. */
interface Served {
  node: TestNode;
  request: IncomingMessage;
  address: string;
  ws: WebSocket;
}

const sockets = new WebSocketServer({ noServer: true });

const nodes = new WebSocketNodes<Served>((node, add) => (request, socket, head) => {
  const address = node.addressOf(request);
  if (request.url?.startsWith('/refused'))
    return refuseUpgrade(request, socket, { code: 'NOT_FOUND', detail: 'Nothing.' }, { newId: () => v7() });
  sockets.handleUpgrade(request, socket, head, (ws) => {
    add({ node, request, address, ws });
    ws.on('message', (data, binary) => ws.send(data, { binary }));
  });
});

const path = (rest = '') => `/ws/state?tenant=${nodes.cluster.tenantId}${rest}`;
const open = async (url = path(), node = nodes.here, options: object = {}): Promise<WebSocket> => {
  const ws = new WebSocket(`ws://127.0.0.1:${node.port}${url}`, options);
  await once(ws, 'open');
  return ws;
};
const statusOf = async (url = path(), node = nodes.here): Promise<[number, string]> => {
  const ws = new WebSocket(`ws://127.0.0.1:${node.port}${url}`);
  const [, response] = (await once(ws, 'unexpected-response')) as [unknown, IncomingMessage];
  let body = '';
  for await (const chunk of response) body += chunk;
  return [response.statusCode ?? 0, JSON.parse(body).code];
};

describe('an upgrade', () => {
  it('is served by the owner of its tenant, with its headers and the client’s address', async () => {
    const ws = await open(path('&token=x'), nodes.here, {
      headers: { 'X-Twinkeep-Client-Address': '192.0.2.66', 'X-Other': 'ä', Origin: 'https://example.org' },
    });
    expect(nodes.served).toMatchObject([{ node: { id: nodes.there.id }, address: '127.0.0.1' }]);
    expect(nodes.served[0]?.request.url).toBe(path('&token=x'));
    expect(nodes.served[0]?.request.headers).toMatchObject({
      ...{ host: `127.0.0.1:${nodes.here.port}`, origin: 'https://example.org', 'x-other': 'ä' },
      'x-twinkeep-client-address': '127.0.0.1',
    });
    const text = 'x'.repeat(1_000_000);
    ws.send(text);
    expect(String((await once(ws, 'message'))[0])).toBe(text);
    ws.close(4_000, 'bye');
    const [code, reason] = await once(nodes.served[0]?.ws as WebSocket, 'close');
    expect([code, String(reason)]).toEqual([4_000, 'bye']);
    await eventually(() => nodes.here.edge.sizes().cluster_dialled_links === 0);
    expect(nodes.cluster.owners.inProgress(nodes.there.id, nodes.cluster.shard)).toBe(0);
  });

  const ownPath = () => {
    nodes.cluster.owners.give(nodes.cluster.shard, nodes.here.id);
    return path();
  };
  it.each([
    ['without a tenant', () => '/ws/state'],
    ['of a tenant of this node', ownPath],
    ['of MQTT, which is routed by its CONNECT', () => `/mqtt?tenant=${nodes.cluster.tenantId}`],
  ])('%s is served here', async (_, url) => {
    await open(url(), nodes.here, { headers: { 'X-Twinkeep-Client-Address': '192.0.2.66' } });
    expect(nodes.served).toMatchObject([{ node: { id: nodes.here.id }, address: '127.0.0.1' }]);
    expect(nodes.served[0]?.request.headers).not.toHaveProperty('x-twinkeep-client-address');
    expect(nodes.cluster.owners.inProgress(nodes.here.id, nodes.cluster.shard)).toBe(0);
  });

  it('over TLS between the nodes is served', async () => {
    const [one, two] = [await nodes.start({ tls: linkTls }), await nodes.start({ tls: linkTls })];
    nodes.cluster.owners.give(nodes.cluster.shard, two.id);
    const ws = await open(path(), one);
    ws.send('hello');
    expect(String((await once(ws, 'message'))[0])).toBe('hello');
    expect(nodes.served[0]?.node).toBe(two);
  });

  it('that the owner refuses has the owner’s response', async () => {
    expect(await statusOf(`/refused?tenant=${nodes.cluster.tenantId}`)).toEqual([404, 'NOT_FOUND']);
    await eventually(() => nodes.here.edge.sizes().cluster_dialled_links === 0);
  });

  it('of a tenant without an owner, or with one that cannot be reached, is 503', async () => {
    nodes.cluster.owners.give(nodes.cluster.shard, undefined);
    expect(await statusOf()).toEqual([503, 'OVERLOADED']);
    nodes.cluster.owners.give(nodes.cluster.shard, nodes.there.id);
    nodes.there.edge.abort();
    expect(await statusOf(path(), await nodes.start(impatient))).toEqual([503, 'OVERLOADED']);
    const fails = () => Promise.reject(new StoreUnavailable('away'));
    const other = await nodes.start({ hints: { ...namedHints, ofUpgrade: fails } as never });
    expect(await statusOf(path(), other)).toEqual([503, 'STORE_UNAVAILABLE']);
  });

  it('is sent to the new owner if this node has outdated owners', async () => {
    const third = await nodes.start();
    nodes.cluster.owners.freeze(nodes.here.id);
    nodes.cluster.owners.give(nodes.cluster.shard, third.id);
    await open();
    expect(nodes.served.map(({ node }) => node.id)).toEqual([third.id]);
    nodes.cluster.owners.freeze(nodes.here.id);
    nodes.cluster.owners.give(nodes.cluster.shard, nodes.here.id);
    await open();
    expect(nodes.served.map(({ node }) => node.id)).toEqual([third.id, nodes.here.id]);
  });

  it('whose owner cannot be reached waits for the node that takes over', async () => {
    nodes.there.edge.abort();
    const opening = open();
    await eventually(() => nodes.cluster.owners.refreshes > 1);
    const heir = await nodes.start();
    nodes.cluster.owners.give(nodes.cluster.shard, heir.id);
    await opening;
    expect(nodes.served.map(({ node }) => node.id)).toEqual([heir.id]);
  });

  it('ends at the owner when the client breaks it, and at the client when the owner does', async () => {
    const first = await open();
    const atOwner = once(nodes.served[0]?.ws as WebSocket, 'close');
    first.terminate();
    await atOwner;
    const second = await open();
    nodes.served[1]?.ws.terminate();
    await once(second, 'close');
    await eventually(() => nodes.here.edge.sizes().cluster_dialled_links === 0);
  });

  it('carries one request: what follows it is not read as another one', async () => {
    const socket = connect(nodes.here.port, '127.0.0.1');
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
    });
    const head = `GET /refused?tenant=${nodes.cluster.tenantId} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n`;
    const second = `GET /v1/secret HTTP/1.1\r\nHost: x\r\nX-Twinkeep-Client-Address: 192.0.2.66\r\nX-Twinkeep-Shard: ${nodes.cluster.shard}\r\n\r\n`;
    socket.write(`${head}Content-Length: ${second.length}\r\n\r\n${second}${second}`);
    await once(socket, 'close');
    expect(received.match(/HTTP\/1\.1/g)).toEqual(['HTTP/1.1']);
    expect(received).toMatch(/^HTTP\/1.1 404 /);
  });

  it('is not accepted on a link for requests, nor a request on a link for an upgrade', async () => {
    const link = await nodes.cluster.link(nodes.there);
    link.write('GET /ws/state HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    await once(link.resume(), 'close');
    const other = await nodes.cluster.link(nodes.there, { kind: 'upgrade', shard: nodes.cluster.shard });
    other.write('GET /v1/devices HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(other.resume(), 'end');
    other.destroy();
    expect(nodes.served).toEqual([]);
    await eventually(() => nodes.cluster.owners.inProgress(nodes.there.id, nodes.cluster.shard) === 0);
  });
});
