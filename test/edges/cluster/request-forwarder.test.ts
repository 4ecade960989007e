import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse, request as sendRequest } from 'node:http';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { eventLoopTurns, eventually } from '../../support/clock.ts';
import { slow } from '../../support/slow.ts';
import { call, impatient, textOf } from './nodes.ts';
import { echo, ServingNodes } from './serving-nodes.ts';

const nodes = new ServingNodes();
const send: ServingNodes['send'] = (...given) => nodes.send(...given);

/** A request of the tenant, whose body the test sends. */
const post = (headers: OutgoingHttpHeaders = nodes.tenant()) =>
  sendRequest({ port: nodes.here.port, path: '/', method: 'POST', headers, agent: false });

describe('headers', () => {
  it('of one connection are not passed on, nor those that Connection names, in both directions', async () => {
    nodes.serve = (request, response) => {
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
    nodes.serve = (request, response, node) => {
      const names = Object.keys(request.headers).filter((name) => name.startsWith('x-twinkeep'));
      response.end(JSON.stringify({ names, address: node.addressOf(request) }));
    };
    const direct = await call(nodes.here.port, '/', { headers: spoofed });
    expect(JSON.parse(direct.body)).toEqual({ names: [], address: '127.0.0.1' });
  });

  it('of a trusted proxy give the address that the owner sees', async () => {
    const behindProxy = await nodes.start({
      trustedProxies: ['127.0.0.1'],
      addressOf: (request) => `${request.headers['x-forwarded-for']}`,
    });
    const { body } = await send({ headers: { 'X-Forwarded-For': '198.51.100.4' } }, '/', behindProxy);
    expect(JSON.parse(body)).toMatchObject({ node: nodes.there.id, address: '198.51.100.4' });
  });
});

describe('a body', () => {
  const large = randomBytes(4 * 1024 * 1024).toString('hex');

  it('is streamed both ways', async () => {
    expect(JSON.parse((await send({ method: 'POST', body: large })).body).body).toBe(large);
  });

  it('is passed on while it arrives, and so is the response: neither is buffered', async () => {
    nodes.serve = (request, response) => {
      response.writeHead(200, { 'Content-Type': 'application/octet-stream' });
      request.pipe(response);
    };
    const sent = post();
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
    nodes.serve = (given) => {
      request = given;
    };
    const sent = post();
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
    const headers = { ...nodes.tenant(), Expect: '100-continue', 'Content-Length': '7' };
    const sent = post(headers);
    sent.flushHeaders();
    await once(sent, 'continue');
    sent.end('content');
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    expect(JSON.parse(await textOf(response))).toMatchObject({ node: nodes.there.id, body: 'content' });
  });

  it('that the owner refuses before its end is discarded, and the next request is answered', async () => {
    nodes.serve = (request, response, node) => {
      if (request.method === 'GET') return void echo(request, response, node);
      response.writeHead(413).end('too large');
      request.resume();
    };
    const socket = connect(nodes.here.port, '127.0.0.1');
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk;
    });
    socket.write(`POST / HTTP/1.1\r\nHost: x\r\nX-Tenant: ${nodes.cluster.tenantId}\r\nContent-Length: 500000\r\n\r\n`);
    await eventually(() => received.includes('too large'));
    socket.write('x'.repeat(500_000));
    socket.write(`GET /next HTTP/1.1\r\nHost: x\r\nX-Tenant: ${nodes.cluster.tenantId}\r\n\r\n`);
    await eventually(() => received.includes('"url":"/next"'));
    socket.destroy();
  });

  it('of an upload does not keep the shard in progress', async () => {
    nodes.cluster.owners.give(nodes.cluster.shard, nodes.here.id);
    let entered = -1;
    nodes.serve = async (request, response) => {
      entered = nodes.inProgress(nodes.here);
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
    nodes.serve = (_request, response) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.flushHeaders();
      stream = response;
    };
    const sent = sendRequest({ port: nodes.here.port, path: '/mcp', headers: nodes.tenant(), agent: false }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const owner = await eventually(() => stream);
    expect(nodes.inProgress(nodes.there)).toBe(0);
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
    nodes.serve = (_request, response) => {
      response.on('close', () => {
        closed = true;
      });
    };
    const sent = sendRequest({ port: nodes.here.port, path: '/', headers: nodes.tenant(), agent: false }).end();
    sent.on('error', () => {});
    await eventually(() => nodes.served.length === 1);
    expect(nodes.inProgress(nodes.there)).toBe(1);
    sent.destroy();
    await eventually(() => closed);
    expect(nodes.inProgress(nodes.there)).toBe(0);
  });

  const KEY = { 'Idempotency-Key': 'one' };
  it.each([
    ['a GET', 'GET', '/', {}, 2],
    ['a POST with an Idempotency-Key', 'POST', '/v1/homes', KEY, 2],
    ['a POST without a key', 'POST', '/v1/homes', {}, 1],
    ['a PUT', 'PUT', '/v1/x', KEY, 1],
    ['a POST of MCP, which has no keys', 'POST', '/mcp', KEY, 1],
    ['a POST with a key and more than 64 KiB', 'POST', '/v1/homes', { ...KEY, 'X-Large': 'yes' }, 1],
  ])(
    'before the response: %s is sent again only if that has no second effect',
    async (_, method, path, headers, times) => {
      nodes.serve = async (request) => {
        await textOf(request);
        request.socket.destroy();
      };
      const body = 'X-Large' in headers ? 'x'.repeat(100_000) : method === 'GET' ? undefined : 'x';
      const options = { method, headers, ...(body !== undefined && { body }) };
      expect(await send(options, path)).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
      expect(nodes.served).toHaveLength(times);
    },
  );

  it('before the response leads to the next owner, with the whole request', async () => {
    const heir = await nodes.start();
    nodes.serve = async (request, response, node) => {
      if (node.id === heir.id) return echo(request, response, node);
      await textOf(request);
      nodes.cluster.owners.give(nodes.cluster.shard, heir.id);
      request.socket.destroy();
    };
    const { status, body } = await send({ method: 'POST', body: 'content', headers: KEY });
    expect([status, JSON.parse(body)]).toMatchObject([200, { node: heir.id, body: 'content' }]);
  });

  it('that neither end notices is 503 after a time, but not while a response or a body pauses', slow, async () => {
    const timed = await nodes.start({ limits: { responseMs: 3_000 } });
    const pause = (then: () => void) => void setTimeout(then, 4_500);
    nodes.serve = (request, response, node) => {
      if (request.url === '/lost') return;
      if (request.url === '/body') return void echo(request, response, node);
      response.write('begun');
      pause(() => response.end(' and ended'));
    };
    const at = (path: string) => call(timed.port, path, { headers: nodes.tenant() });
    const sent = sendRequest({
      port: timed.port,
      path: '/body',
      method: 'POST',
      headers: nodes.tenant(),
      agent: false,
    });
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>;
    sent.write('first');
    pause(() => sent.end(' and last'));
    const [lost, paused, [response]] = await Promise.all([at('/lost'), at('/paused'), answered]);
    expect(lost).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
    expect(paused).toMatchObject({ status: 200, body: 'begun and ended' });
    expect([response.statusCode, JSON.parse(await textOf(response)).body]).toEqual([200, 'first and last']);
    expect(nodes.served).toHaveLength(3);
  });

  it('in the response breaks it off at the client', async () => {
    nodes.serve = (request, response) => {
      response.writeHead(200, { 'Content-Length': '100' });
      response.write('part', () => request.socket.destroy());
    };
    await expect(send()).rejects.toThrow();
    nodes.serve = (request, response) => {
      response.writeHead(200);
      response.write('part', () => request.socket.destroy());
    };
    await expect(send()).rejects.toThrow();
  });

  it('between two requests is replaced', async () => {
    await send();
    nodes.there.edge.disconnect(nodes.here.id);
    await eventually(() => nodes.here.edge.sizes().cluster_dialled_links === 0);
    expect((await send()).status).toBe(200);
  });

  it('with the node is 503, and the new owner is found', async () => {
    const other = await nodes.start(impatient);
    await send({}, '/', other);
    nodes.there.edge.abort();
    await eventually(() => other.edge.sizes().cluster_dialled_links === 0);
    expect((await send({ method: 'POST', body: 'x' }, '/', other)).status).toBe(503);
    const heir = await nodes.start();
    nodes.cluster.owners.freeze(nodes.here.id);
    nodes.cluster.owners.give(nodes.cluster.shard, heir.id);
    expect(JSON.parse((await send({ method: 'POST', body: 'x' })).body)).toMatchObject({ node: heir.id, body: 'x' });
  });
});
