import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { v7 } from 'uuid';
import { beforeEach, describe, expect, it } from 'vitest';
import { shardOf } from '../../../src/domain/shards.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { eventually } from '../../support/clock.ts';
import { linkTls, startListener } from './links.ts';
import { call, impatient, namedHints, type TestNode } from './nodes.ts';
import { ServingNodes } from './serving-nodes.ts';

const nodes = new ServingNodes();
const send: ServingNodes['send'] = (...given) => nodes.send(...given);

describe('a request', () => {
  it('without a tenant is served where it arrives', async () => {
    expect(JSON.parse((await call(nodes.here.port, '/health')).body)).toMatchObject({
      node: nodes.here.id,
      url: '/health',
    });
  });

  it('of a tenant of this node is served here, and counts as in progress until its response starts', async () => {
    nodes.cluster.owners.give(nodes.cluster.shard, nodes.here.id);
    nodes.serve = (_request, response) => {
      expect(nodes.inProgress(nodes.here)).toBe(1);
      response.write('started');
      expect(nodes.inProgress(nodes.here)).toBe(0);
      response.end();
    };
    expect(await send()).toMatchObject({ status: 200, body: 'started' });
    expect(nodes.inProgress(nodes.here)).toBe(0);
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
      { node: nodes.there.id, method: 'PUT', url: '/v1/x%20y?q=%C3%A4&q=2', body: 'content', address: '127.0.0.1' },
    ]);
    const pairs = rawHeaders.flatMap((name: string, n: number) =>
      n % 2 === 0 ? [`${name}: ${rawHeaders[n + 1]}`] : [],
    );
    expect(pairs).toEqual(
      expect.arrayContaining(['X-Twice: a', 'X-Twice: b', 'Accept: text/x', 'Content-Type: text/y']),
    );
    expect(pairs).toContain(`Host: 127.0.0.1:${nodes.here.port}`);
    expect(nodes.inProgress(nodes.there)).toBe(0);
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
    const socket = connect(nodes.here.port, '127.0.0.1');
    socket.write(`GET /old HTTP/1.0\r\nX-Tenant: ${nodes.cluster.tenantId}\r\n\r\n`);
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk;
    });
    await once(socket, 'close');
    expect(JSON.parse(received.slice(received.indexOf('{')))).toMatchObject({ node: nodes.there.id, url: '/old' });
    expect(received).not.toMatch(/transfer-encoding/i);
  });

  it('of a shard without an owner is 503, with the time after which to retry', async () => {
    nodes.cluster.owners.give(nodes.cluster.shard, undefined);
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
    expect(nodes.served).toEqual([]);
  });

  it('over TLS between the nodes is served', async () => {
    const [one, two] = [await nodes.start({ tls: linkTls }), await nodes.start({ tls: linkTls })];
    nodes.cluster.owners.give(nodes.cluster.shard, two.id);
    for (let n = 0; n < 3; n += 1)
      expect(JSON.parse((await send({ method: 'POST', body: 'x' }, '/', one)).body)).toMatchObject({
        node: two.id,
        body: 'x',
      });
    expect(one.edge.sizes().cluster_dialled_links).toBe(1);
  });

  it('uses a link again, and as many links as there are requests at a time', async () => {
    for (let n = 0; n < 5; n += 1) await send();
    expect(nodes.here.edge.sizes().cluster_dialled_links).toBe(1);
    const responses: ServerResponse[] = [];
    nodes.serve = (_request, response) => void responses.push(response);
    const answers = Promise.all([send(), send(), send()]);
    await eventually(() => responses.length === 3);
    expect(nodes.here.edge.sizes().cluster_dialled_links).toBe(3);
    for (const response of responses) response.end();
    await answers;
  });
});

describe('a node that is no longer the owner', () => {
  let third: TestNode;
  beforeEach(async () => {
    third = await nodes.start();
    nodes.cluster.owners.freeze(nodes.here.id);
    nodes.cluster.owners.give(nodes.cluster.shard, third.id);
  });

  it.each([
    ['no body', { method: 'GET' }],
    ['a small body', { method: 'POST', body: 'x'.repeat(60_000) }],
    ['a small chunked body', { method: 'POST', body: 'x', headers: { 'Transfer-Encoding': 'chunked' } }],
  ])('answers 421, and a request with %s is sent to the new one', async (_, options: Parameters<typeof call>[2]) => {
    const { status, body } = await send(options);
    expect([status, JSON.parse(body)]).toMatchObject([200, { node: third.id, body: options?.body ?? '' }]);
    expect([nodes.served.length, nodes.cluster.owners.refreshes]).toEqual([1, 1]);
  });

  it('is found out when this node has become the owner itself', async () => {
    nodes.cluster.owners.give(nodes.cluster.shard, nodes.here.id);
    const { body } = await send({ method: 'POST', body: 'content' });
    expect(JSON.parse(body)).toMatchObject({ node: nodes.here.id, body: 'content', address: '127.0.0.1' });
    expect([nodes.served.length, nodes.inProgress(nodes.here)]).toEqual([1, 0]);
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
    nodes.cluster.owners.nodes.set(outdated.node.id, outdated.node);
    nodes.cluster.owners.give(nodes.cluster.shard, outdated.node.id);
    nodes.cluster.owners.freeze(nodes.here.id);
    nodes.cluster.owners.give(nodes.cluster.shard, third.id);
    expect(await send({ method: 'POST', body: 'x'.repeat(200_000) })).toMatchObject({ status: 503 });
    expect([nodes.served, nodes.cluster.owners.refreshes]).toEqual([[], 0]);
    outdated.listener.close();
    outdated.listener.abort();
  });

  it.each([
    ['itself', () => [nodes.there.id]],
    ['each other', () => [nodes.there.id, third.id]],
  ])('is tried for a limited time if nodes name %s, although none is the owner', async (_, named) => {
    let lookups = 0;
    nodes.cluster.owners.give(nodes.cluster.shard, nodes.here.id);
    const outdated = await nodes.start({
      directory: {
        enter: () => {
          const id = named()[lookups++ % named().length] as string;
          return { at: 'node', node: nodes.cluster.owners.nodes.get(id) as never };
        },
        refresh: async () => {},
      },
      ...impatient,
    });
    const { status, body } = await call(outdated.port, '/', { headers: nodes.tenant() });
    expect([status, JSON.parse(body).code]).toEqual([503, 'OVERLOADED']);
    expect(nodes.served).toEqual([]);
    // Each attempt at a node that was tried waits at least 10 ms.
    expect(lookups).toBeLessThan(30);
  });

  it('answers 421 to a request of a link without a shard, or with an invalid one', async () => {
    const responses: number[] = [];
    for (const shard of ['', '256', '-1', '1.5', 'x']) {
      const link = await nodes.cluster.link(nodes.there);
      link.write(`GET / HTTP/1.1\r\nHost: x\r\n${shard === '' ? '' : `X-Twinkeep-Shard: ${shard}\r\n`}\r\n`);
      responses.push(Number(String((await once(link, 'data'))[0]).slice(9, 12)));
      link.destroy();
    }
    expect([responses, nodes.served]).toEqual([[421, 421, 421, 421, 421], []]);
  });
});

describe('an owner that cannot be reached', () => {
  const large = 'x'.repeat(1_000_000);

  it.each([
    ['without a body', { method: 'DELETE', body: '' }],
    ['with a body of any length', { method: 'POST', body: large }],
  ])('is waited for: a request %s is answered by the node that takes over', async (_, options) => {
    nodes.there.edge.abort();
    const sent = send(options, '/');
    await eventually(() => nodes.cluster.owners.refreshes > 1);
    const heir = await nodes.start();
    nodes.cluster.owners.give(nodes.cluster.shard, heir.id);
    const { status, body } = await sent;
    expect([status, JSON.parse(body)]).toMatchObject([200, { node: heir.id, body: options.body }]);
    expect(nodes.served).toHaveLength(1);
  });

  it('is waited for: a request is answered by the node where it arrived, when that one takes over', async () => {
    nodes.there.edge.abort();
    const sent = send({ method: 'POST', body: large }, '/');
    await eventually(() => nodes.cluster.owners.refreshes > 1);
    nodes.cluster.owners.give(nodes.cluster.shard, nodes.here.id);
    expect(JSON.parse((await sent).body)).toMatchObject({ node: nodes.here.id, body: large, address: '127.0.0.1' });
  });

  it('is not tried again for a client that has gone', async () => {
    nodes.there.edge.abort();
    const socket = connect(nodes.here.port, '127.0.0.1');
    socket.write(`GET / HTTP/1.1\r\nHost: x\r\nX-Tenant: ${nodes.cluster.tenantId}\r\n\r\n`);
    await eventually(() => nodes.cluster.owners.refreshes > 0);
    expect(nodes.here.edge.sizes().cluster_forwarding).toBe(1);
    socket.destroy();
    await eventually(() => nodes.here.edge.sizes().cluster_forwarding === 0);
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
    const closing = nodes.there.edge.close();
    response.end('done');
    expect((await sent).body).toBe('done');
    await closing;
    await eventually(() => nodes.here.edge.sizes().cluster_dialled_links === 0);
    expect(await send({}, '/', await nodes.start(impatient))).toMatchObject({ status: 503 });
  });

  it('finishes requests that are with other nodes, and closes the clients’ connections', async () => {
    let answer: ServerResponse | null = null;
    nodes.serve = (_request, response) => {
      answer = response;
    };
    const sent = send({ headers: { Connection: 'keep-alive' } });
    nodes.here.draining = true;
    const response = await eventually(() => answer);
    const closing = nodes.here.edge.close();
    response.end('done');
    expect(await sent).toMatchObject({ body: 'done', headers: { connection: 'close' } });
    await closing;
  });
});

it('a request of another shard of the same node is served, whatever its tenant', async () => {
  const other = v7();
  nodes.cluster.owners.give(shardOf(other), nodes.there.id);
  expect(JSON.parse((await call(nodes.here.port, '/', { headers: { 'x-tenant': other } })).body).node).toBe(
    nodes.there.id,
  );
});
