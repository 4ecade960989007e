import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createWebSocketStream, WebSocket } from 'ws';
import { encodeProxyHeader } from '../../src/edges/shared/proxy-protocol.ts';
import { readBytes } from '../../src/edges/shared/read-bytes.ts';
import { packets } from '../edges/mqtt/client.ts';
import { connect, register } from '../support/device.ts';
import { silentLog, startService, type TestService } from '../support/service.ts';

const file = (name: string) => fileURLToPath(new URL(`../support/tls/${name}`, import.meta.url));
const certificate = { TLS_CERT: file('localhost.crt'), TLS_KEY: file('localhost.key') };
const CLIENT = '192.0.2.7';
const ACCEPTED = 0;
const NOT_AUTHORIZED = 5;

const sockets: { destroy(): void }[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

/** The headers of a response. */
async function headersOf(url: string, headers: Record<string, string> = {}): Promise<IncomingHttpHeaders> {
  const options = { headers, rejectUnauthorized: false };
  const sent = url.startsWith('https:') ? httpsRequest(url, options) : httpRequest(url, options);
  const [response] = await once(sent.end(), 'response');
  response.resume();
  return response.headers;
}

const header = (encrypted: boolean | null): Buffer =>
  encodeProxyHeader({ address: CLIENT, port: 1 }, { address: '203.0.113.1', port: 2 }, encrypted);

function dial(port: number): Socket {
  const socket = connectTcp(port, '127.0.0.1');
  sockets.push(socket);
  return socket;
}

/** The return code of the CONNACK for a tenant user with this token, after these bytes. */
async function signInUser(
  socket: Socket | ReturnType<typeof createWebSocketStream>,
  token: string,
  before: Buffer = Buffer.of(),
) {
  socket.write(Buffer.concat([before, packets.connect({ clientId: 'c', username: 'jwt', password: token })]));
  return (await readBytes(socket, 4))[3];
}

const portOf = (url: string | null): number => Number(new URL(url ?? '').port);

describe('with TLS in the service', () => {
  let at: TestService;
  let token: string;
  beforeAll(async () => {
    at = await startService({ ...certificate, MQTT_TLS_PORT: '0', HSTS_MAX_AGE: '86400' });
    token = await at.token('user');
  });
  afterAll(() => at?.stop());

  it.each(['/health', '/v1/auth/me', '/nothing', '/console', '/graphql', '/mcp', '/docs', '/openapi.json', '/metrics'])(
    'the response of %s has HSTS once',
    async (path) => {
      const { 'strict-transport-security': policy, 'x-request-id': id } = await headersOf(at.url + path);
      expect([policy, typeof id]).toEqual(['max-age=86400', 'string']);
    },
  );

  it('responses with cookies keep all of them', async () => {
    const headers = await headersOf(`${at.url}/v1/auth/csrf`);
    expect(headers['set-cookie']).toHaveLength(1);
    expect(headers['strict-transport-security']).toBe('max-age=86400');
  });

  it('a user connects to the TLS port', async () => {
    const socket = connectTls({
      port: portOf(at.service.mqttUrl()),
      ca: readFileSync(certificate.TLS_CERT),
      servername: 'localhost',
    });
    sockets.push(socket);
    const owner = await tenantOwner(at, token);
    expect(await signInUser(socket, owner)).toBe(ACCEPTED);
  });
});

/** A token of the owner of a new tenant, whose service has a self-signed certificate. */
async function tenantOwner(at: TestService, token: string): Promise<string> {
  const sent = httpsRequest(`${at.url}/v1/tenant/register`, {
    method: 'POST',
    rejectUnauthorized: false,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
  });
  const [response] = await once(sent.end(JSON.stringify({ tenant_name: 'T' })), 'response');
  response.resume();
  expect(response.statusCode).toBe(201);
  return token;
}

describe('with TLS that ends in a trusted proxy', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let port: number;
  /** Fields of the warnings about users without TLS. */
  const warnings: object[] = [];
  const mqtt = (before: Buffer) => signInUser(dial(port), owner.token, before);
  const webSocket = async (headers: Record<string, string>) => {
    const socket = new WebSocket(`${at.url.replace('http', 'ws')}/mqtt`, 'mqtt', { headers });
    sockets.push({ destroy: () => socket.terminate() });
    await once(socket, 'open');
    return signInUser(createWebSocketStream(socket), owner.token);
  };
  beforeAll(async () => {
    const warn = (fields: object, message: string) => {
      if (message.startsWith('mqtt user refused')) warnings.push(fields);
    };
    at = await startService(
      { TRUSTED_PROXIES: '127.0.0.1', PUBLIC_URL: 'https://iot.example.com' },
      { log: { ...silentLog, warn } },
    );
    owner = await at.owner();
    port = portOf(at.service.mqttUrl());
  });
  afterAll(() => at?.stop());

  it('HSTS follows X-Forwarded-Proto of the proxy', async () => {
    const policyOf = async (headers: Record<string, string>) =>
      (await headersOf(`${at.url}/health`, headers))['strict-transport-security'];
    expect(await policyOf({ 'X-Forwarded-Proto': 'https' })).toBe('max-age=31536000');
    expect(await policyOf({ 'X-Forwarded-Proto': 'http, HTTPS' })).toBe('max-age=31536000');
    expect(await policyOf({ 'X-Forwarded-Proto': 'wss' })).toBe('max-age=31536000');
    expect(await policyOf({ 'X-Forwarded-Proto': 'https, http' })).toBeUndefined();
    expect(await policyOf({ 'X-Forwarded-Proto': 'ws' })).toBeUndefined();
    expect(await policyOf({ 'X-Forwarded-Proto': 'http' })).toBeUndefined();
    expect(await policyOf({})).toBeUndefined();
  });

  it('a user without TLS is refused on the TCP port', async () => {
    expect(await mqtt(header(false))).toBe(NOT_AUTHORIZED);
    expect(await mqtt(header(null))).toBe(NOT_AUTHORIZED);
    expect(await mqtt(Buffer.from(`PROXY TCP4 ${CLIENT} 203.0.113.1 1 2\r\n`))).toBe(NOT_AUTHORIZED);
  });

  it('a refused user is in the log, at most once a minute and without the credential, and in the metrics', async () => {
    const counted = async () => {
      const { body } = await at.api().get('/metrics');
      return Number(/^twinkeep_mqtt_sign_ins_total\{outcome="without_tls"\} (\d+)$/m.exec(body)?.[1] ?? 0);
    };
    const before = await counted();
    at.clock.advance(60_000);
    warnings.splice(0);
    for (const token of [owner.token, owner.token, 'wrong']) {
      expect(await signInUser(dial(port), token, header(false))).toBe(NOT_AUTHORIZED);
    }
    expect((await counted()) - before).toBe(3);
    expect(warnings.splice(0)).toEqual([{ address: CLIENT, refused: expect.any(Number) }]);
    at.clock.advance(60_000);
    expect(await mqtt(header(false))).toBe(NOT_AUTHORIZED);
    expect(warnings).toEqual([{ address: CLIENT, refused: 3 }]);
    at.clock.set(Date.now());
  });

  it('a user whose TLS the proxy reports, or on the same machine, is accepted', async () => {
    expect(await mqtt(header(true))).toBe(ACCEPTED);
    expect(await mqtt(Buffer.of())).toBe(ACCEPTED);
  });

  it('a user over WebSocket needs X-Forwarded-Proto: https or wss', async () => {
    const forwarded = { 'X-Forwarded-For': CLIENT };
    expect(await webSocket({ ...forwarded, 'X-Forwarded-Proto': 'https' })).toBe(ACCEPTED);
    expect(await webSocket({ ...forwarded, 'X-Forwarded-Proto': 'wss' })).toBe(ACCEPTED);
    expect(await webSocket({ ...forwarded, 'X-Forwarded-Proto': 'http' })).toBe(NOT_AUTHORIZED);
    expect(await webSocket({ ...forwarded, 'X-Forwarded-Proto': 'ws' })).toBe(NOT_AUTHORIZED);
    expect(await webSocket(forwarded)).toBe(NOT_AUTHORIZED);
  });

  it('a device, which sends no secret, is accepted without TLS', async () => {
    const { mqtt_url, ...registered } = await register(owner);
    const device = await connect({ ...registered, mqtt_url: `mqtt://127.0.0.1:${port}` });
    await device.close();
  });
});

describe('with TLS as an option of users', () => {
  it('a user is accepted without TLS', async () => {
    const at = await startService({
      ...{ TRUSTED_PROXIES: '127.0.0.1', PUBLIC_URL: 'https://iot.example.com', MQTT_USER_TLS: 'optional' },
    });
    try {
      const owner = await at.owner();
      expect(await signInUser(dial(portOf(at.service.mqttUrl())), owner.token, header(false))).toBe(ACCEPTED);
    } finally {
      await at.stop();
    }
  });
});

describe('without TLS', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  beforeAll(async () => {
    at = await startService({ MQTT_PORT: 'off' });
    owner = await at.owner();
  });
  afterAll(() => at?.stop());

  it('responses have no HSTS, whatever the client sends', async () => {
    for (const headers of [{}, { 'X-Forwarded-Proto': 'https' }] as Record<string, string>[])
      expect(await headersOf(`${at.url}/health`, headers)).not.toHaveProperty('strict-transport-security');
  });

  it('and without an MQTT port, devices connect over WebSocket', async () => {
    expect(at.service.mqttUrl()).toBe(`${at.url.replace('http', 'ws')}/mqtt`);
    const registered = await register(owner);
    expect(registered.mqtt_url).toBe(at.service.mqttUrl());
    const device = await connect(registered);
    await device.close();
  });
});
