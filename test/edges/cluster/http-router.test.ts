import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { v7 } from 'uuid';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { shardOf } from '../../../src/domain/shards.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { eventually } from '../../support/clock.ts';
import { linkTls, startListener } from './links.ts';
import { call, namedHints, type TestNode } from './nodes.ts';
import { ServingNodes } from './serving-nodes.ts';

let nodes: ServingNodes;
let cluster: ServingNodes['cluster'];
let served: ServingNodes['served'];
let here: TestNode;
let there: TestNode;

beforeEach(async () => {
  nodes = await ServingNodes.open();
  ({ cluster, served, here, there } = nodes);
});
afterEach(() => cluster.close());

const tenant = () => nodes.tenant();
const inProgress = (node: TestNode) => nodes.inProgress(node);
const send: ServingNodes['send'] = (...given) => nodes.send(...given);

describe('a request', () => {
  it('without a tenant is served where it arrives', async () => {
    expect(JSON.parse((await call(here.port, '/health')).body)).toMatchObject({ node: here.id, url: '/health' });
  });

  it('of a tenant of this node is served here, and counts as in progress until its response starts', async () => {
    cluster.owners.give(cluster.shard, here.id);
    nodes.serve = (_request, response) => {
      expect(inProgress(here)).toBe(1);
      response.write('started');
      expect(inProgress(here)).toBe(0);
      response.end();
    };
    expect(await send()).toMatchObject({ status: 200, body: 'started' });
    expect(inProgress(here)).toBe(0);
  });

  it('of a tenant of another node is served there, with its path, end-to-end headers and body', async () => {
    const { status, body } = await send(
      {
        method: 'PUT',
        body: 'content',
        headers: { 'X-Twice': ['a', 'b'], Accept: 'text/x', 'Content-Type': 'text/y' },
      },
      '/v1/x%20y?q=%C3%A4&q=2',
    );
    const { rawHeaders, ...seen } = JSON.parse(body);
    expect([status, seen]).toEqual([
      200,
      { node: there.id, method: 'PUT', url: '/v1/x%20y?q=%C3%A4&q=2', body: 'content', address: '127.0.0.1' },
    ]);
    const pairs = rawHeaders.flatMap((name: string, n: number) =>
      n % 2 === 0 ? [`${name}: ${rawHeaders[n + 1]}`] : [],
    );
    expect(pairs).toEqual(
      expect.arrayContaining(['X-Twice: a', 'X-Twice: b', 'Accept: text/x', 'Content-Type: text/y']),
    );
    expect(pairs).toContain(`Host: 127.0.0.1:${here.port}`);
    expect(inProgress(there)).toBe(0);
  });

  it.each(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'OPTIONS'])(
    '%s without a body has none at the owner',
    async (method) => {
      nodes.serve = (request, response) => {
        const { 'transfer-encoding': coding, 'content-length': length } = request.headers;
        response.writeHead(200, { 'X-Framing': `${coding} ${length}` }).end();
      };
      const { headers } = await send({ method });
      expect(headers['x-framing']).toMatch(
        method === 'POST' || method === 'PATCH' ? 'undefined 0' : 'undefined undefined',
      );
    },
  );

  it('of HTTP/1.0 without a host is served there, and its connection is closed', async () => {
    const socket = connect(here.port, '127.0.0.1');
    socket.write(`GET /old HTTP/1.0\r\nX-Tenant: ${cluster.tenantId}\r\n\r\n`);
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk;
    });
    await once(socket, 'close');
    expect(JSON.parse(received.slice(received.indexOf('{')))).toMatchObject({ node: there.id, url: '/old' });
    expect(received).not.toMatch(/transfer-encoding/i);
  });

  it('of a shard without an owner is 503, with the time after which to retry', async () => {
    cluster.owners.give(cluster.shard, undefined);
    const { status, headers, body } = await send();
    expect([status, headers['retry-after'], headers['content-type']]).toEqual([503, '1', 'application/problem+json']);
    expect(JSON.parse(body)).toMatchObject({ code: 'OVERLOADED', status: 503, instance: '/v1/devices' });
  });

  it('whose tenant cannot be found during a store outage is refused', async () => {
    const fails = () => Promise.reject(new StoreUnavailable('away'));
    const other = await nodes.start({ hints: { ...namedHints, ofRequest: fails } as never });
    expect(await send({}, '/', other)).toMatchObject({ status: 503, headers: { 'retry-after': '2' } });
    const broken = () => {
      throw new Error('bug');
    };
    const another = await nodes.start({ hints: { ...namedHints, ofRequest: broken } as never });
    expect((await send({}, '/', another)).status).toBe(500);
    expect(served).toEqual([]);
  });

  it('over TLS between the nodes is served', async () => {
    const [one, two] = [await nodes.start({ tls: linkTls }), await nodes.start({ tls: linkTls })];
    cluster.owners.give(cluster.shard, two.id);
    for (let n = 0; n < 3; n += 1)
      expect(JSON.parse((await send({ method: 'POST', body: 'x' }, '/', one)).body)).toMatchObject({
        node: two.id,
        body: 'x',
      });
    expect(one.edge.sizes().cluster_dialled_links).toBe(1);
  });

  it('uses a link again, and as many links as there are requests at a time', async () => {
    for (let n = 0; n < 5; n += 1) await send();
    expect(here.edge.sizes().cluster_dialled_links).toBe(1);
    const responses: ServerResponse[] = [];
    nodes.serve = (_request, response) => void responses.push(response);
    const answers = Promise.all([send(), send(), send()]);
    await eventually(() => responses.length === 3);
    expect(here.edge.sizes().cluster_dialled_links).toBe(3);
    for (const response of responses) response.end();
    await answers;
  });
});

describe('a node that is no longer the owner', () => {
  let third: TestNode;
  beforeEach(async () => {
    third = await nodes.start();
    cluster.owners.freeze(here.id);
    cluster.owners.give(cluster.shard, third.id);
  });

  it.each([
    ['no body', { method: 'GET' }],
    ['a small body', { method: 'POST', body: 'x'.repeat(60_000) }],
    ['a small chunked body', { method: 'POST', body: 'x', headers: { 'Transfer-Encoding': 'chunked' } }],
  ])('answers 421, and a request with %s is sent to the new one', async (_, options: Parameters<typeof call>[2]) => {
    const { status, body } = await send(options);
    expect([status, JSON.parse(body)]).toMatchObject([200, { node: third.id, body: options?.body ?? '' }]);
    expect([served.length, cluster.owners.refreshes]).toEqual([1, 1]);
  });

  it('is found out when this node has become the owner itself', async () => {
    cluster.owners.give(cluster.shard, here.id);
    const { body } = await send({ method: 'POST', body: 'content' });
    expect(JSON.parse(body)).toMatchObject({ node: here.id, body: 'content', address: '127.0.0.1' });
    expect([served.length, inProgress(here)]).toEqual([1, 0]);
  });

  it('that answers 421 after more than 64 KiB of a body leads to 503: the request cannot be sent again', async () => {
    const outdated = await startListener({
      onLink: ({ socket }) => {
        let bytes = 0;
        socket.on('data', (chunk) => {
          bytes += chunk.length;
          if (bytes > 200_000)
            socket.write('HTTP/1.1 421 No\r\nX-Twinkeep-Misdirected: 1\r\nContent-Length: 0\r\n\r\n');
        });
      },
    });
    cluster.owners.nodes.set(outdated.node.id, outdated.node);
    cluster.owners.give(cluster.shard, outdated.node.id);
    cluster.owners.freeze(here.id);
    cluster.owners.give(cluster.shard, third.id);
    expect(await send({ method: 'POST', body: 'x'.repeat(200_000) })).toMatchObject({ status: 503 });
    expect([served, cluster.owners.refreshes]).toEqual([[], 0]);
    outdated.listener.close();
    outdated.listener.abort();
  });

  it('is tried once: nodes that all refuse cannot make a loop', async () => {
    const liar = await nodes.start({
      directory: {
        enter: () => ({ at: 'node', node: cluster.owners.nodes.get(there.id) as never }),
        refresh: async () => {},
      },
    });
    const { status, body } = await call(liar.port, '/', { headers: tenant() });
    expect([status, JSON.parse(body).code]).toEqual([503, 'OVERLOADED']);
    expect(served).toEqual([]);
    const alternating = [there.id, third.id];
    let lookups = 0;
    cluster.owners.give(cluster.shard, here.id);
    const other = await nodes.start({
      directory: {
        enter: () => ({ at: 'node', node: cluster.owners.nodes.get(alternating[lookups++ % 2] as string) as never }),
        refresh: async () => {},
      },
    });
    expect((await call(other.port, '/', { headers: tenant() })).status).toBe(503);
    expect([lookups, served]).toEqual([2, []]);
  });

  it('answers 421 to a request of a link without a shard, or with an invalid one', async () => {
    const responses: number[] = [];
    for (const shard of ['', '256', '-1', '1.5', 'x']) {
      const link = await cluster.link(there);
      link.write(`GET / HTTP/1.1\r\nHost: x\r\n${shard === '' ? '' : `X-Twinkeep-Shard: ${shard}\r\n`}\r\n`);
      responses.push(Number(String((await once(link, 'data'))[0]).slice(9, 12)));
      link.destroy();
    }
    expect([responses, served]).toEqual([[421, 421, 421, 421, 421], []]);
  });
});

describe('a node that stops', () => {
  it('finishes requests on links, and then closes them', async () => {
    let answer: ServerResponse | null = null;
    nodes.serve = (_request, response) => {
      answer = response;
    };
    const sent = send();
    const response = await eventually(() => answer);
    const closing = there.edge.close();
    response.end('done');
    expect((await sent).body).toBe('done');
    await closing;
    await eventually(() => here.edge.sizes().cluster_dialled_links === 0);
    expect(await send()).toMatchObject({ status: 503 });
  });

  it('finishes requests that are with other nodes, and closes the clients’ connections', async () => {
    let answer: ServerResponse | null = null;
    nodes.serve = (_request, response) => {
      answer = response;
    };
    const sent = send({ headers: { Connection: 'keep-alive' } });
    here.draining = true;
    const response = await eventually(() => answer);
    const closing = here.edge.close();
    response.end('done');
    expect(await sent).toMatchObject({ body: 'done', headers: { connection: 'close' } });
    await closing;
  });
});

it('a request of another shard of the same node is served, whatever its tenant', async () => {
  const other = v7();
  cluster.owners.give(shardOf(other), there.id);
  expect(JSON.parse((await call(here.port, '/', { headers: { 'x-tenant': other } })).body).node).toBe(there.id);
});
