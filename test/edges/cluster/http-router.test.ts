import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, type RequestListener, type ServerResponse, request as sendRequest } from 'node:http';
import { connect } from 'node:net';
import { v7 } from 'uuid';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { shardOf } from '../../../src/domain/shards.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { eventLoopTurns, eventually } from '../../support/clock.ts';
import { linkTls, startListener } from './links.ts';
import { call, namedHints, TestCluster, type TestNode, textOf } from './nodes.ts';

let cluster: TestCluster;
/** Requests that each node has served, in order. */
let served: { node: string; request: IncomingMessage }[];
/** The handler of the local edges. */
let serve: (request: IncomingMessage, response: ServerResponse, node: TestNode) => void;
let here: TestNode;
let there: TestNode;

const local = (node: () => TestNode): { listener: RequestListener } => ({
  listener: (request, response) => {
    served.push({ node: node().id, request });
    serve(request, response, node());
  },
});

/** Answers with what the node received. */
const echo = async (request: IncomingMessage, response: ServerResponse, node: TestNode): Promise<void> => {
  const body = await textOf(request);
  const { method, url, rawHeaders } = request;
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify({ node: node.id, method, url, rawHeaders, body, address: node.addressOf(request) }));
};

beforeEach(async () => {
  cluster = new TestCluster();
  served = [];
  serve = (...given) => void echo(...given);
  here = await cluster.start(local);
  there = await cluster.start(local);
  cluster.owners.give(cluster.shard, there.id);
});
afterEach(() => cluster.close());

const tenant = () => ({ 'x-tenant': cluster.tenantId });
const inProgress = (node: TestNode) => cluster.owners.inProgress(node.id, cluster.shard);
const send = async (options: Parameters<typeof call>[2] = {}, path = '/v1/devices', from = here) =>
  call(from.port, path, { ...options, headers: { ...tenant(), ...options.headers } });

describe('a request', () => {
  it('without a tenant is served where it arrives', async () => {
    expect(JSON.parse((await call(here.port, '/health')).body)).toMatchObject({ node: here.id, url: '/health' });
  });

  it('of a tenant of this node is served here, and counts as in progress until its response starts', async () => {
    cluster.owners.give(cluster.shard, here.id);
    serve = (_request, response) => {
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
      serve = (request, response) => {
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
    const other = await cluster.start(local, { hints: { ...namedHints, ofRequest: fails } as never });
    expect(await send({}, '/', other)).toMatchObject({ status: 503, headers: { 'retry-after': '2' } });
    const broken = () => {
      throw new Error('bug');
    };
    const another = await cluster.start(local, { hints: { ...namedHints, ofRequest: broken } as never });
    expect((await send({}, '/', another)).status).toBe(500);
    expect(served).toEqual([]);
  });

  it('over TLS between the nodes is served', async () => {
    const [one, two] = [await cluster.start(local, { tls: linkTls }), await cluster.start(local, { tls: linkTls })];
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
    serve = (_request, response) => void responses.push(response);
    const answers = Promise.all([send(), send(), send()]);
    await eventually(() => responses.length === 3);
    expect(here.edge.sizes().cluster_dialled_links).toBe(3);
    for (const response of responses) response.end();
    await answers;
  });
});

describe('headers', () => {
  it('of one connection are not passed on, nor those that Connection names, in both directions', async () => {
    serve = (request, response) => {
      const { rawHeaders } = request;
      response.writeHead(200, [
        'Connection',
        'X-Private, close',
        'X-Private',
        '1',
        'Keep-Alive',
        'timeout=9',
        'X-Public',
        '2',
      ]);
      response.end(JSON.stringify(rawHeaders.filter((_, n) => n % 2 === 0).map((name) => name.toLowerCase())));
    };
    const { body, headers } = await send({
      method: 'POST',
      body: 'x',
      headers: {
        Connection: 'keep-alive, x-secret, Host, Content-Length, X-Twinkeep-Shard',
        ...{ 'X-Secret': '1', TE: 'trailers', 'Proxy-Authorization': 'x', 'Proxy-Connection': 'y', Upgrade: 'h2c' },
      },
    });
    expect(JSON.parse(body).sort()).toEqual(
      ['connection', 'content-length', 'host', 'x-tenant', 'x-twinkeep-client-address', 'x-twinkeep-shard'].sort(),
    );
    expect(headers).toMatchObject({ 'x-public': '2' });
    expect(headers).not.toHaveProperty('x-private');
    expect(headers.connection).not.toContain('X-Private');
  });

  it('with a client address are honoured on links only', async () => {
    const spoofed = {
      'X-Twinkeep-Client-Address': '192.0.2.66',
      'X-Twinkeep-Shard': '1',
      'X-Twinkeep-Misdirected': '1',
    };
    expect(JSON.parse((await send({ headers: spoofed })).body).address).toBe('127.0.0.1');
    serve = (request, response, node) => {
      const names = Object.keys(request.headers).filter((name) => name.startsWith('x-twinkeep'));
      response.end(JSON.stringify({ names, address: node.addressOf(request) }));
    };
    const direct = await call(here.port, '/', { headers: spoofed });
    expect(JSON.parse(direct.body)).toEqual({ names: [], address: '127.0.0.1' });
  });

  it('of a trusted proxy give the address that the owner sees', async () => {
    const behindProxy = await cluster.start(local, {
      trustedProxies: ['127.0.0.1'],
      addressOf: (request) => `${request.headers['x-forwarded-for']}`,
    });
    const { body } = await send({ headers: { 'X-Forwarded-For': '198.51.100.4' } }, '/', behindProxy);
    expect(JSON.parse(body)).toMatchObject({ node: there.id, address: '198.51.100.4' });
  });
});

describe('a body', () => {
  const large = randomBytes(4 * 1024 * 1024).toString('hex');

  it('is streamed both ways', async () => {
    expect(JSON.parse((await send({ method: 'POST', body: large })).body).body).toBe(large);
  });

  it('is passed on while it arrives, and so is the response: neither is buffered', async () => {
    serve = (request, response) => {
      response.writeHead(200, { 'Content-Type': 'application/octet-stream' });
      request.pipe(response);
    };
    const sent = sendRequest({ port: here.port, path: '/', method: 'POST', headers: tenant(), agent: false });
    sent.write('first');
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    expect(String((await once(response, 'data'))[0])).toBe('first');
    const ended = once(response, 'end');
    sent.end('second');
    expect(String((await once(response, 'data'))[0])).toBe('second');
    await ended;
  });

  it('stops flowing while the owner does not read', async () => {
    let request: IncomingMessage | null = null;
    serve = (given) => {
      request = given;
    };
    const sent = sendRequest({ port: here.port, path: '/', method: 'POST', headers: tenant(), agent: false });
    sent.on('error', () => {});
    const chunk = Buffer.alloc(1024 * 1024);
    const limit = 64;
    let written = 0;
    while (written < limit && (sent.write(chunk) || (await drained(sent)))) written += 1;
    expect(written).toBeLessThan(limit);
    await eventually(() => request !== null);
    sent.destroy();
  });

  it('is announced by Expect: 100-continue, which the first node answers', async () => {
    const headers = { ...tenant(), Expect: '100-continue', 'Content-Length': '7' };
    const sent = sendRequest({ port: here.port, path: '/', method: 'POST', headers, agent: false });
    sent.flushHeaders();
    await once(sent, 'continue');
    sent.end('content');
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    expect(JSON.parse(await textOf(response))).toMatchObject({ node: there.id, body: 'content' });
  });

  it('that the owner refuses before its end is discarded, and the next request is answered', async () => {
    serve = (request, response, node) => {
      if (request.method === 'GET') return void echo(request, response, node);
      response.writeHead(413).end('too large');
      request.resume();
    };
    const socket = connect(here.port, '127.0.0.1');
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk;
    });
    socket.write(`POST / HTTP/1.1\r\nHost: x\r\nX-Tenant: ${cluster.tenantId}\r\nContent-Length: 500000\r\n\r\n`);
    await eventually(() => received.includes('too large'));
    socket.write('x'.repeat(500_000));
    socket.write(`GET /next HTTP/1.1\r\nHost: x\r\nX-Tenant: ${cluster.tenantId}\r\n\r\n`);
    await eventually(() => received.includes('"url":"/next"'));
    socket.destroy();
  });

  it('of an upload does not keep the shard in progress', async () => {
    cluster.owners.give(cluster.shard, here.id);
    let entered = -1;
    serve = async (request, response) => {
      entered = inProgress(here);
      response.end(`${(await textOf(request)).length}`);
    };
    expect((await send({ method: 'POST', body: large })).body).toBe(`${large.length}`);
    expect(entered).toBe(0);
    const chunked = { 'Transfer-Encoding': 'chunked', 'Content-Type': 'application/octet-stream' };
    await send({ method: 'POST', body: 'x', headers: chunked });
    expect(entered).toBe(0);
    await send({ method: 'POST', body: '{}', headers: { ...chunked, 'Content-Type': 'application/json' } });
    expect(entered).toBe(1);
  });
});

/** Whether a stream drains before the event loop has done everything that is ready. */
async function drained(stream: NodeJS.EventEmitter): Promise<boolean> {
  let done = false;
  const drain = () => {
    done = true;
  };
  stream.once('drain', drain);
  await eventLoopTurns();
  stream.off('drain', drain);
  return done;
}

describe('an event stream', () => {
  it('is passed on event by event, and does not keep the shard in progress', async () => {
    let stream: ServerResponse | null = null;
    serve = (_request, response) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.flushHeaders();
      stream = response;
    };
    const sent = sendRequest({ port: here.port, path: '/mcp', headers: tenant(), agent: false }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const owner = await eventually(() => stream);
    expect(inProgress(there)).toBe(0);
    for (const event of ['data: 1\n\n', 'data: 2\n\n']) {
      owner.write(event);
      expect(String((await once(response, 'data'))[0])).toBe(event);
    }
    sent.destroy();
    await once(owner, 'close');
  });
});

describe('a connection that breaks', () => {
  it('at the client ends the request at the owner', async () => {
    let closed = false;
    serve = (_request, response) => {
      response.on('close', () => {
        closed = true;
      });
    };
    const sent = sendRequest({ port: here.port, path: '/', headers: tenant(), agent: false }).end();
    sent.on('error', () => {});
    await eventually(() => served.length === 1);
    expect(inProgress(there)).toBe(1);
    sent.destroy();
    await eventually(() => closed);
    expect(inProgress(there)).toBe(0);
  });

  it('before the response is 503, and the request is not sent again', async () => {
    serve = (request) => request.socket.destroy();
    for (const method of ['GET', 'POST']) {
      expect(await send({ method })).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
    }
    expect(served).toHaveLength(2);
    expect(cluster.owners.refreshes).toBe(0);
  });

  it('in the response breaks it off at the client', async () => {
    serve = (request, response) => {
      response.writeHead(200, { 'Content-Length': '100' });
      response.write('part', () => request.socket.destroy());
    };
    await expect(send()).rejects.toThrow();
    serve = (request, response) => {
      response.writeHead(200);
      response.write('part', () => request.socket.destroy());
    };
    await expect(send()).rejects.toThrow();
  });

  it('between two requests is replaced', async () => {
    await send();
    there.edge.disconnect(here.id);
    await eventually(() => here.edge.sizes().cluster_dialled_links === 0);
    expect((await send()).status).toBe(200);
  });

  it('with the node is 503, and the new owner is found', async () => {
    await send();
    there.edge.abort();
    cluster.owners.freeze(here.id);
    await eventually(() => here.edge.sizes().cluster_dialled_links === 0);
    expect((await send({ method: 'POST', body: 'x' })).status).toBe(503);
    const heir = await cluster.start(local);
    cluster.owners.freeze(here.id);
    cluster.owners.give(cluster.shard, heir.id);
    expect(JSON.parse((await send({ method: 'POST', body: 'x' })).body)).toMatchObject({ node: heir.id, body: 'x' });
  });
});

describe('a node that is no longer the owner', () => {
  let third: TestNode;
  beforeEach(async () => {
    third = await cluster.start(local);
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
    const liar = await cluster.start(local, {
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
    const other = await cluster.start(local, {
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
    serve = (_request, response) => {
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
    serve = (_request, response) => {
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
