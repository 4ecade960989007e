import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, request, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { WebSocket } from 'ws';
import { decodeProxyLine } from '../../src/edges/shared/proxy-protocol.ts';
import {
  type BalancedNodes,
  type BalancerProgram,
  deployed,
  expectServiceUntilOneNodeIsLeft,
  type RunningBalancer,
  runBalancer,
  startBalancedNodes,
} from '../support/balanced-nodes.ts';
import { eventually } from '../support/clock.ts';
import { callTool, mcpClient, structured } from '../support/mcp.ts';

const { nginx } = inject('programs');

const program: BalancerProgram = {
  configurationFor(nodes, { http, mqtt }, folder) {
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${folder}/${name};`,
    );
    const bound = deployed('nginx/nginx.conf')
      .replace('listen 8080', `listen 127.0.0.1:${http}`)
      .replace('listen 1883', `listen 127.0.0.1:${mqtt}`)
      .replaceAll('/var/log/nginx/', `${folder}/`)
      // One process, and folders that every user may write.
      .replace('worker_processes auto;', `worker_processes 1; daemon off; pid ${folder}/pid; error_log stderr;`)
      .replace('http {', `http { ${temporary.join(' ')}`);
    return nodes.reduce(
      (text, { PORT, MQTT_PORT }, n) =>
        text.replace(`node${n + 1}:1883`, `127.0.0.1:${MQTT_PORT}`).replace(`node${n + 1}:8080`, `127.0.0.1:${PORT}`),
      bound,
    );
  },
  command: (file) => [nginx as string, '-c', file],
};

/** A stand-in for a node, which records what nginx sends to it. */
class RecordingNode {
  readonly requests: { path: string; headers: IncomingHttpHeaders }[] = [];
  /** What was received on each MQTT connection. */
  readonly received: Buffer[] = [];
  /** Responses to requests of `/mcp`, which stay open. */
  readonly streams: ServerResponse[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #http = createServer((incoming, response) => {
    if (incoming.url !== '/health/ready')
      this.requests.push({ path: incoming.url as string, headers: incoming.headers });
    incoming.resume();
    if (incoming.url !== '/mcp') return void response.end('ok');
    this.streams.push(response);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: first\n\n');
  });
  readonly #mqtt = createTcpServer((socket) => {
    const at = this.received.push(Buffer.alloc(0)) - 1;
    socket.on('data', (chunk: Buffer) => {
      this.received[at] = Buffer.concat([this.received[at] as Buffer, chunk]);
    });
    socket.on('error', () => {});
  });

  async open() {
    const portOf = async (server: Server): Promise<string> => {
      server.on('connection', (socket) => this.#sockets.add(socket));
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      return `${(server.address() as AddressInfo).port}`;
    };
    return { PORT: await portOf(this.#http), MQTT_PORT: await portOf(this.#mqtt) };
  }

  close(): void {
    for (const server of [this.#http, this.#mqtt]) server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

describe.runIf(nginx)('nginx', () => {
  const nodes = [new RecordingNode(), new RecordingNode(), new RecordingNode()];
  let balancer: RunningBalancer;
  const requests = () => nodes.flatMap((node) => node.requests);
  /** The node that received a request of this path. */
  const nodeOf = (path: string) => nodes.findIndex((node) => node.requests.some((received) => received.path === path));

  beforeAll(async () => {
    balancer = await runBalancer(program, await Promise.all(nodes.map((node) => node.open())));
  });
  afterAll(async () => {
    await balancer?.stop();
    for (const node of nodes) node.close();
  });

  /** The status of a request from this address. */
  async function get(path: string, headers: Record<string, string> = {}, localAddress = '127.0.0.1'): Promise<number> {
    const { http: port } = balancer.ports;
    const sent = request({ host: '127.0.0.1', port, path, headers, localAddress }).end();
    const [response] = await once(sent, 'response');
    response.resume();
    await once(response, 'end');
    return response.statusCode;
  }

  it('names the client, and no other that it claims to be', async () => {
    await get('/claimed', { 'x-forwarded-for': '192.0.2.1', host: 'twinkeep.example.com:8080' }, '127.0.0.2');
    const { headers } = requests().at(-1) as { headers: IncomingHttpHeaders };
    expect(headers['x-forwarded-for']).toBe('127.0.0.2');
    expect(headers.host).toBe('twinkeep.example.com:8080');
    expect(headers.upgrade).toBeUndefined();
  });

  it.each([
    ['a token', (client: number) => ({ authorization: `Bearer token-${client}` })],
    ['an API key', (client: number) => ({ 'x-api-key': `tk_${client}` })],
    [
      'a cookie session',
      (client: number) => ({ cookie: `a=b; twinkeep_session=s${client}; twinkeep_csrf=${Math.random()}` }),
    ],
    ['a cookie session over HTTPS', (client: number) => ({ cookie: `__Host-twinkeep_session=s${client}` })],
  ])('keeps a client with %s at one node, and spreads the clients', async (name, headersOf) => {
    const found = new Set<number>();
    for (let client = 0; client < 12; client++) {
      const paths = [1, 2, 3].map((n) => `/${encodeURIComponent(name)}/${client}/${n}`);
      for (const [n, path] of paths.entries()) await get(path, headersOf(client), `127.0.0.${n + 2}`);
      const [node, ...others] = paths.map(nodeOf);
      expect(others).toEqual([node, node]);
      found.add(node as number);
    }
    expect(found.size).toBeGreaterThan(1);
  });

  it('passes a chunk of an event stream on at once', async () => {
    const response = await fetch(`${balancer.url}/mcp`, { headers: { authorization: 'Bearer streaming' } });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader?.read())?.value).toBe('data: first\n\n');
    const [stream] = nodes.flatMap((node) => node.streams) as [ServerResponse];
    stream.write('data: second\n\n');
    expect((await reader?.read())?.value).toBe('data: second\n\n');
    stream.end();
  });

  it('sends the address of a device before its first byte, in version 1 of the PROXY protocol', async () => {
    const socket = connect({ port: balancer.ports.mqtt, host: '127.0.0.1', localAddress: '127.0.0.3' });
    socket.write('first bytes');
    const received = await eventually(() =>
      nodes.flatMap((node) => node.received).find((bytes) => bytes.includes('first bytes')),
    );
    const header = decodeProxyLine(received as Buffer);
    expect(header).toMatchObject({
      source: { address: '127.0.0.3', port: socket.localPort },
      destination: { address: '127.0.0.1', port: balancer.ports.mqtt },
    });
    expect((received as Buffer).toString()).toMatch(/\r\nfirst bytes$/);
    socket.destroy();
  });

  it('writes no credential to its log', async () => {
    await get('/ws/state?token=secret-in-query');
    const log = await eventually(() => {
      const text = readFileSync(join(balancer.folder, 'access.log'), 'utf8');
      return text.includes('/ws/state') ? text : null;
    });
    expect(log).not.toContain('secret-in-query');
    expect(log).not.toContain('token-1');
  });

  it('refuses a body that the service would refuse too, and takes a firmware artifact of the largest size', async () => {
    const put = (path: string, bytes: number) =>
      fetch(balancer.url + path, { method: 'PUT', body: new Uint8Array(bytes) } as RequestInit);
    expect((await put('/v1/devices/x', 256 * 1024)).status).toBe(200);
    expect((await put('/v1/devices/x', 2 * 1024 * 1024)).status).toBe(413);
    expect((await put('/v1/firmware/x/artifact', 64 * 1024 * 1024)).status).toBe(200);
    expect((await put('/api/v1/firmware/x/artifact', 2 * 1024 * 1024)).status).toBe(200);
  });

  it('tries the next node when one refuses connections, also for a request that must not be repeated', async () => {
    nodes[0]?.close();
    for (let client = 0; client < 12; client++) {
      const headers = { authorization: `Bearer token-${client}` };
      const response = await fetch(`${balancer.url}/v1/x`, { method: 'POST', body: '{}', headers });
      expect(response.status).toBe(200);
    }
  });

  it('writes no credential to its logs when no node accepts a connection', async () => {
    for (const node of nodes) node.close();
    const paths = ['/ws/unreachable', '/v1/unreachable', '/v1/firmware/unreachable/artifact'];
    for (const path of paths) expect(await get(`${path}?token=secret-of-unreachable`)).toBe(502);
    await eventually(() => {
      const text = readFileSync(join(balancer.folder, 'access.log'), 'utf8');
      return paths.every((path) => text.includes(`${path}" 502`));
    });
    for (const file of ['access.log', 'error.log'])
      expect(readFileSync(join(balancer.folder, file), 'utf8')).not.toContain('secret-of-unreachable');
  });
});

describe.runIf(inject('postgresUrl') && nginx)('three nodes behind nginx', () => {
  let balanced: BalancedNodes;
  beforeAll(async () => {
    balanced = await startBalancedNodes(program);
  });
  afterAll(() => balanced?.stop());

  it('serve WebSockets', async () => {
    const { owner, balancer } = balanced;
    const socket = new WebSocket(`${balancer.url.replace('http', 'ws')}/ws/state?token=${owner.token}`);
    const texts: string[] = [];
    socket.on('message', (data) => texts.push(String(data)));
    await once(socket, 'open');
    socket.send('ping');
    await eventually(() => texts.includes('pong'));
    socket.close();
  });

  it('serve agents, over Streamable HTTP and over HTTP+SSE', async () => {
    const { owner, balancer } = balanced;
    for (const transport of ['Streamable HTTP', 'HTTP+SSE'] as const) {
      const client = await mcpClient(balancer.url, owner.token, { transport });
      expect(structured(await callTool(client, 'list_homes')).homes).toHaveLength(1);
      await client.close();
    }
  });

  it('take and serve firmware', async () => {
    const { owner, balancer } = balanced;
    const { body } = await owner.post('/v1/firmware/release', { device_type: 'smart_light', version: '1.0.0' });
    const bytes = Buffer.alloc(3 * 1024 * 1024, 'firmware');
    const headers = { authorization: `Bearer ${owner.token}`, 'content-type': 'application/octet-stream' };
    const path = `${balancer.url}/v1/firmware/${body.id}/artifact`;
    expect((await fetch(path, { method: 'PUT', headers, body: bytes } as RequestInit)).status).toBe(200);
    const { release } = (await owner.get(`/v1/firmware/${body.id}`)).body;
    const { pathname, search } = new URL(release.url);
    const download = await fetch(balancer.url + pathname + search);
    expect(Buffer.from(await download.arrayBuffer()).equals(bytes)).toBe(true);
  });

  it('serve devices by MQTT, and go on when a node ends', () => expectServiceUntilOneNodeIsLeft(balanced));
});
