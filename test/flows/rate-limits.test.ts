import { randomUUID } from 'node:crypto';
import { connectAsync } from 'mqtt';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { recordingStore } from '../support/recording-store.ts';
import { type ApiClient, startService, type TestService } from '../support/service.ts';

// The service behind a local proxy, whose header names the client.

let at: TestService;
let owner: ApiClient;
const store = recordingStore();

beforeAll(async () => {
  at = await startService(
    { TRUSTED_PROXIES: '127.0.0.1', RATE_LIMITS: 'free=0,pro=0' },
    { wrapStore: store.around, limits: { rates: { anonymous: 5, signIns: 3, session: 600 } } },
  );
  owner = await at.owner();
});
afterAll(() => at.stop());

const from = (address: string) => ({ 'x-forwarded-for': address });

const version = async (address: string) => (await at.api().get('/version', from(address))).status;

/** The code with which `/ws/state` closes the connection; 4000 if it is admitted. */
function watch(token: string, address: string): Promise<number> {
  const url = `${at.url.replace('http', 'ws')}/ws/state?token=${token}`;
  const socket = new WebSocket(url, { headers: from(address) });
  return new Promise((resolve) => {
    socket.once('close', resolve);
    socket.once('open', () => socket.send('ping'));
    socket.once('message', () => socket.close(4000));
  });
}

/** The CONNACK code for a user over `/mqtt`; 0 admits. */
const listen = (password: string, address: string): Promise<number> =>
  connectAsync(`${at.url.replace('http', 'ws')}/mqtt`, {
    ...{ username: 'jwt', password, protocolVersion: 4, reconnectPeriod: 0 },
    wsOptions: { headers: from(address) },
  }).then(
    async (client) => {
      await client.endAsync();
      return 0;
    },
    (error: { code: number }) => error.code,
  );

it('counts anonymous requests by the client that a trusted proxy names', async () => {
  const requested: number[] = [];
  for (let n = 0; n < 6; n++) requested.push(await version('192.0.2.1'));
  expect(requested).toEqual([200, 200, 200, 200, 200, 429]);
  expect(await version('192.0.2.2')).toBe(200);
  at.clock.advance(60_000);
  expect(await version('192.0.2.1')).toBe(200);
});

it('counts failed sign-ins per client over all edges', async () => {
  const rest = (address: string) => at.api(randomUUID()).get('/v1/auth/me', from(address));
  expect((await rest('198.51.100.1')).status).toBe(401);
  expect(await watch(randomUUID(), '198.51.100.1')).toBe(4401);
  expect(await listen(randomUUID(), '198.51.100.1')).toBe(5);
  expect((await rest('198.51.100.1')).status).toBe(429);
  expect(await watch(randomUUID(), '198.51.100.1')).toBe(1013);
  expect(await watch(`ws_${'a'.repeat(43)}`, '198.51.100.1')).toBe(1013);
  expect(await listen(randomUUID(), '198.51.100.1')).toBe(5);
  // A client with a valid credential is still admitted.
  expect(await watch(owner.token, '198.51.100.1')).toBe(4000);
  expect(await listen(owner.token, '198.51.100.1')).toBe(0);
  expect((await rest('198.51.100.2')).status).toBe(401);
});

it('does not verify the credentials of a client after ten times the allowed failures', async () => {
  const token = await at.token('newcomer');
  for (let n = 0; n < 30; n++) await at.api(randomUUID()).get('/v1/auth/me', from('203.0.113.1'));
  const fresh = await at.token('another');
  expect((await at.api(fresh).get('/v1/auth/me', from('203.0.113.1'))).status).toBe(429);
  expect(await watch(fresh, '203.0.113.1')).toBe(1013);
  expect((await at.api(token).get('/v1/auth/me', from('203.0.113.2'))).status).toBe(200);
  expect((await at.api(token).get('/v1/auth/me', from('203.0.113.1'))).status).toBe(200);
});

/** A caller with only these headers. */
const by = (headers: Record<string, string>) => (path: string) => at.api().get(path, headers);

const presenting = {
  token: async () => by({ authorization: `Bearer ${owner.token}` }),
  key: async () => {
    const { body } = await owner.post('/v1/auth/api-keys', {
      name: 'for a test',
      scopes: ['read:manifests', 'read:devices'],
    });
    return by({ 'x-api-key': body.key });
  },
  'cookie session': async () => {
    const { headers } = await at.api().post('/v1/auth/session', { token: owner.token });
    const [session = ''] = headers.getSetCookie();
    return by({ cookie: session.slice(0, session.indexOf(';')) });
  },
};

it.each(Object.entries(presenting))(
  'reads nothing from the database for a request with a %s if nothing changed',
  async (_, present) => {
    const get = await present();
    // Background jobs of the service query due work and write usage at any time.
    const clockwork = ['actors.dueTimers', 'actors.nextTimerAt', 'keys.flushUse'];
    const requested = () => store.calls.filter((call) => !clockwork.includes(call));
    const request = async () => {
      const answers = [await get('/v1/manifest/types'), await get('/api/v1/manifest/capabilities')];
      expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    };
    at.clock.advance(60_000);
    await request();
    store.calls.length = 0;
    await request();
    await request();
    expect(requested()).toEqual([]);
    // Reads of the operation itself are not counted.
    expect((await get('/v1/devices')).status).toBe(200);
    expect(requested().filter((call) => !call.startsWith('devices.'))).toEqual([]);
  },
);

it('allows a cookie session 600 requests a minute, whatever the limit of its tenant', async () => {
  const get = await presenting['cookie session']();
  const { headers } = await get('/v1/auth/me');
  expect([headers.get('ratelimit-policy'), headers.get('ratelimit')]).toEqual([
    '"session";q=600;w=60',
    expect.stringMatching(/^"session";r=\d{3};t=\d+$/),
  ]);
});
