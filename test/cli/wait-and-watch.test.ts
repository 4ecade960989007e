import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Device } from '../../src/device/device.ts';
import { runCliInProcess } from '../support/cli.ts';
import { eventually } from '../support/clock.ts';
import { type Deployment, makeDeployment } from '../support/deployment.ts';
import { connect, register } from '../support/device.ts';
import { startService, type TestService } from '../support/service.ts';

const folder = mkdtempSync(join(tmpdir(), 'twinkeep-waiting-'));
afterAll(() => rmSync(folder, { recursive: true }));

type Owner = Awaited<ReturnType<TestService['owner']>>;

/** The command line with `token`. */
const begin = (url: string, token: string, args: readonly string[]) => runCliInProcess(args, { url, token });

/** A light whose commands last until they are released. */
interface SlowLight {
  device: Device;
  started(): Promise<void>;
  release(reported?: boolean): void;
}

async function slowLight(owner: Owner): Promise<SlowLight> {
  let running = 0;
  let release = (_reported?: boolean) => {};
  const device = await connect(await register(owner), {
    commands: {
      turn_on: async () => {
        const reported = new Promise<boolean>((resolve) => {
          release = (state = true) => resolve(state);
        });
        running += 1;
        return { state: { on: await reported } };
      },
      reboot: () => ({}),
    },
  });
  return {
    device,
    async started() {
      await eventually(() => running > 0);
      running = 0;
    },
    release: (reported) => release(reported),
  };
}

/** Responses of the service so far, by method, route and status. */
async function answersOf(at: TestService): Promise<Map<string, number>> {
  const text = await (await fetch(`${at.url}/metrics`)).text();
  const lines = text.matchAll(
    /^twinkeep_http_requests_total\{route="([^"]+)",method="(\w+)",status="(\d+)"\} (\d+)$/gm,
  );
  return new Map([...lines].map(([, route, method, status, count]) => [`${method} ${route} ${status}`, Number(count)]));
}

const since = (before: Map<string, number>, after: Map<string, number>): Record<string, number> =>
  Object.fromEntries(
    [...after]
      .map(([name, count]) => [name, count - (before.get(name) ?? 0)] as const)
      .filter(([name, count]) => count > 0 && !name.includes('/metrics')),
  );

describe('--wait and --watch', () => {
  let at: TestService;
  let owner: Owner;
  let light: SlowLight;
  beforeAll(async () => {
    at = await startService();
    owner = await at.owner();
  });
  beforeEach(async () => {
    light = await slowLight(owner);
    return () => light.device.close();
  });
  afterAll(() => at?.stop());

  const run = (...args: string[]) => begin(at.url, owner.token, args);
  const id = () => light.device.deviceId;

  it('command --wait costs three requests', async () => {
    const before = await answersOf(at);
    const waiting = run('command', id(), 'turn_on', '--wait');
    await light.started();
    light.release();
    const { code, stdout, stderr } = await waiting;
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/status +succeeded\nverification +verified/);
    expect(since(before, await answersOf(at))).toEqual({
      'POST /ws/ticket 201': 1,
      'POST /device/{deviceId}/command 202': 1,
      'GET /commands/{id} 200': 1,
    });
  });

  it('confirm --wait and confirmations approve --wait take the same requests', async () => {
    for (const verb of ['confirm', 'approve']) {
      const requested = await owner.post(`/v1/device/${id()}/command`, { action: 'reboot' });
      const { command_id, dry_run_token } = requested.body;
      const before = await answersOf(at);
      const args =
        verb === 'confirm' ? ['confirm', id(), dry_run_token] : ['confirmations', 'approve', command_id, '--yes'];
      const { code, stdout } = await run(...args, '--wait');
      expect([verb, code, stdout]).toEqual([verb, 0, expect.stringMatching(/status +succeeded/)]);
      const counts = since(before, await answersOf(at));
      expect(Object.values(counts)).toEqual([1, 1, 1]);
    }
  });

  it('ends with 1 if the device reports a different state than expected', async () => {
    const waiting = run('command', id(), 'turn_on', '--wait');
    await light.started();
    light.release(false);
    await eventually(async () => {
      const { body } = await owner.get(`/v1/device/${id()}/commands`);
      return body.commands[0].status === 'succeeded';
    });
    at.clock.advance(11_000);
    const { code, stdout, stderr } = await waiting;
    expect([code, stdout]).toEqual([1, expect.stringMatching(/status +succeeded\nverification +mismatched/)]);
    expect(stderr).toContain('its device reports a different state');
  });

  it('plans run --watch prints a plan that failed, ends with 1, and costs three requests', async () => {
    const file = join(folder, 'plan.json');
    writeFileSync(file, JSON.stringify({ steps: [{ id: 'a', device_id: id(), action: 'fly' }] }));
    const before = await answersOf(at);
    const { code, stdout, stderr } = await run('plans', 'run', file, '--watch');
    expect([code, stderr]).toEqual([1, expect.stringContaining('the plan is failed')]);
    expect(stdout).toContain('a failed fly {} ACTION_NOT_IN_MANIFEST');
    expect(since(before, await answersOf(at))).toEqual({
      'POST /ws/ticket 201': 1,
      'POST /plans 202': 1,
      'GET /plans/{id} 200': 1,
    });
  });

  it('works with a key that may not open the stream, by polling', async () => {
    const made = await owner.post('/v1/auth/api-keys', { name: 'x', scopes: ['execute:commands', 'read:commands'] });
    const before = await answersOf(at);
    const started = performance.now();
    const waiting = begin(at.url, made.body.key, ['command', id(), 'turn_on', '--wait']);
    await light.started();
    light.release();
    expect((await waiting).code).toBe(0);
    const counts = since(before, await answersOf(at));
    expect(counts['POST /ws/ticket 403']).toBe(1);
    // Polls are at least two seconds apart.
    expect(counts['GET /commands/{id} 200']).toBeLessThanOrEqual(1 + (performance.now() - started) / 2_000);
  });

  it('command with an action that the device does not offer lists those that it does', async () => {
    const { code, stderr } = await run('command', id(), 'fly', '--wait');
    expect(code).toBe(1);
    expect(stderr).toMatch(/^403 ACTION_NOT_IN_MANIFEST The device does not offer 'fly'\. It offers: .*turn_on.*\.$/m);
  });

  it('previews a critical action without waiting', async () => {
    const { code, stdout, stderr } = await run('command', id(), 'reboot', '--wait');
    expect([code, stdout]).toEqual([1, expect.stringContaining('twinkeep confirm')]);
    expect(stderr).toContain('has to be confirmed');
  });
});

/**
 * A proxy in front of the service that terminates WebSockets: `upgraded` is called for each. Returns the times of
 * ticket requests.
 */
async function proxyFor(at: TestService, upgraded: (socket: Duplex, accept: () => Promise<WebSocket>) => void) {
  const tickets: number[] = [];
  const sockets = new WebSocketServer({ noServer: true });
  const server = createServer(async (request, response) => {
    if (request.url === '/ws/ticket') tickets.push(performance.now());
    const { method = 'GET', url = '/' } = request;
    const body = Buffer.concat(await request.toArray());
    const headers = { authorization: `${request.headers.authorization}`, 'content-type': 'application/json' };
    const answer = await fetch(at.url + url, { method, headers, ...(body.length > 0 && { body }) });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
    response.end(Buffer.from(await answer.arrayBuffer()));
  });
  server.on('upgrade', (request, socket, head) => {
    const accept = () => new Promise<WebSocket>((resolve) => sockets.handleUpgrade(request, socket, head, resolve));
    upgraded(socket, accept);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, tickets, close: () => server.close() };
}

describe('--wait through a proxy', () => {
  let at: TestService;
  let owner: Owner;
  let light: SlowLight;
  beforeAll(async () => {
    at = await startService();
    owner = await at.owner();
    light = await slowLight(owner);
  });
  afterAll(async () => {
    await light?.device.close();
    await at?.stop();
  });

  it('that refuses WebSockets: prints the outcome by polling', async () => {
    const proxy = await proxyFor(at, (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    try {
      const waiting = begin(proxy.url, owner.token, ['command', light.device.deviceId, 'turn_on', '--wait']);
      await light.started();
      light.release();
      const { code, stdout, stderr } = await waiting;
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toMatch(/status +succeeded/);
      expect(proxy.tickets).toHaveLength(1);
    } finally {
      proxy.close();
    }
  });

  it('that closes each WebSocket at once: reopens the stream with growing delays', async () => {
    const proxy = await proxyFor(at, async (_, accept) => {
      const socket = await accept();
      socket.once('message', () => socket.send('pong', () => socket.close(1001)));
    });
    try {
      const waiting = begin(proxy.url, owner.token, ['command', light.device.deviceId, 'turn_on', '--wait']);
      await light.started();
      await eventually(() => proxy.tickets.length === 4, 25_000);
      light.release();
      const { code, stdout, stderr } = await waiting;
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toMatch(/status +succeeded/);
      const [first = 0, second = 0, third = 0, fourth = 0] = proxy.tickets;
      expect(second - first).toBeGreaterThan(450);
      expect(third - second).toBeGreaterThan(950);
      expect(fourth - third).toBeGreaterThan(1_950);
    } finally {
      proxy.close();
    }
  });
});

describe('watch through a proxy', () => {
  let at: TestService;
  let token: string;
  beforeAll(async () => {
    at = await startService();
    token = (await at.owner()).token;
  });
  afterAll(() => at?.stop());

  const presence = (device_id: string) =>
    JSON.stringify({ type: 'presence_update', device_id, online: true, timestamp: 0 });

  it('that closes the stream: opens it again and reports the interruption on stderr', async () => {
    let opened = 0;
    const proxy = await proxyFor(at, async (_, accept) => {
      const socket = await accept();
      opened += 1;
      const [name, isFirst] = [`device-${opened}`, opened === 1];
      socket.once('message', () => {
        socket.send('pong');
        socket.send(presence(name), () => isFirst && socket.close(1001));
      });
    });
    try {
      const { code, stdout, stderr } = await begin(proxy.url, token, ['watch', '--count', '2', '--json']);
      const devices = stdout
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { device_id: string }).device_id);
      expect([code, devices]).toEqual([0, ['device-1', 'device-2']]);
      expect(stderr).toMatch(
        /^watching state, presence, command of all devices; Ctrl-C ends\nthe stream was interrupted/,
      );
    } finally {
      proxy.close();
    }
  });

  it('that closes the stream as forbidden: does not open it again', async () => {
    const proxy = await proxyFor(at, async (_, accept) => {
      const socket = await accept();
      socket.once('message', () => socket.send('pong', () => socket.close(4403, 'forbidden')));
    });
    try {
      const { code, stderr } = await begin(proxy.url, token, ['watch']);
      expect([code, stderr]).toEqual([1, expect.stringContaining('forbidden')]);
      expect(proxy.tickets).toHaveLength(1);
    } finally {
      proxy.close();
    }
  });
});

describe('--wait of a tenant above its rate limit', () => {
  let at: TestService;
  beforeAll(async () => {
    at = await startService({ RATE_LIMITS: 'free=30' });
  });
  afterAll(() => at?.stop());

  it('waits as Retry-After requires and prints the outcome', async () => {
    const owner = await at.owner();
    const light = await slowLight(owner);
    const waiting = begin(at.url, owner.token, [
      'command',
      light.device.deviceId,
      'turn_on',
      '--wait',
      '--timeout',
      '10m',
    ]);
    await light.started();
    const refused = await eventually(async () => {
      const answer = await owner.get('/v1/homes');
      return answer.status === 429 ? answer : null;
    });
    at.clock.advance((Number(refused.headers.get('retry-after')) - 2) * 1000);
    expect((await owner.get('/v1/homes')).status).toBe(429);
    light.release();
    const { code, stdout, stderr } = await waiting;
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/status +succeeded/);
    const counts = await answersOf(at);
    expect(counts.get('GET /commands/{id} 429')).toBeGreaterThan(0);
    await light.device.close();
  });
});

describe('--wait across a restart of the service', () => {
  let deployment: Deployment;
  let before: TestService;
  beforeAll(async () => {
    deployment = await makeDeployment();
    before = await startService(deployment.env);
  });
  afterAll(() => deployment?.remove());

  it('reopens the stream and prints the outcome', async () => {
    const owner = await before.owner();
    const light = await slowLight(owner);
    const mqttPort = new URL(before.service.mqttUrl() ?? '').port;
    const waiting = begin(before.url, owner.token, ['command', light.device.deviceId, 'turn_on', '--wait']);
    await light.started();
    await before.stop();
    const ports = { PORT: new URL(before.url).port, MQTT_PORT: mqttPort };
    const after = await startService({ ...deployment.env, ...ports });
    try {
      light.release();
      const { code, stdout, stderr } = await waiting;
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toMatch(/status +succeeded/);
    } finally {
      await light.device.close();
      await after.stop();
    }
  });
});
