import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { SignJWT, UnsecuredJWT } from 'jose';
import { connectAsync } from 'mqtt';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { readTokenKey } from '../../src/config.ts';
import { eventually } from '../support/clock.ts';
import { mqttPortOf } from '../support/raw-device.ts';
import { startService, type TestService } from '../support/service.ts';

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let key: KeyObject;

beforeAll(async () => {
  at = await startService();
  owner = await at.owner('ada');
  key = readTokenKey({ DATA_DIR: at.dataDir }).privateKey;
});
afterAll(() => at.stop());

interface Changes {
  alg?: string;
  issuer?: string;
  audience?: string;
  expiresInS?: number | null;
  key?: KeyObject | Uint8Array;
}

/** A token as the service signs it, with changes. */
function token({ alg = 'EdDSA', issuer = 'urn:twinkeep', audience = 'twinkeep', expiresInS = 600, ...more }: Changes) {
  const now = Math.floor(at.clock.now() / 1000);
  const made = new SignJWT({ scope: 'platform:admin' })
    .setProtectedHeader({ alg, typ: 'JWT' })
    .setIssuer(issuer)
    .setAudience(audience)
    .setSubject('ada')
    .setJti(`${now}.${Math.random()}`)
    .setIssuedAt(now - 3_600);
  if (expiresInS !== null) made.setExpirationTime(now + expiresInS);
  return made.sign(more.key ?? key);
}

const unsigned = () =>
  new UnsecuredJWT({})
    .setIssuer('urn:twinkeep')
    .setAudience('twinkeep')
    .setSubject('ada')
    .setExpirationTime('1h')
    .encode();

const publicKeyBytes = () => Buffer.from(readTokenKey({ DATA_DIR: at.dataDir }).publicKey, 'base64url');

/** The close code, or null if the connection stays open and sends messages. */
async function webSocket(bearer: string): Promise<number | null> {
  const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${encodeURIComponent(bearer)}`);
  const outcome = await new Promise<number | null>((resolve) => {
    socket.once('close', resolve);
    socket.once('open', () => socket.send('ping'));
    socket.once('message', () => resolve(null));
  });
  socket.terminate();
  return outcome;
}

/** The return code of the CONNACK. */
async function mqtt(bearer: string): Promise<number> {
  const options = { username: 'jwt', password: bearer, reconnectPeriod: 0, protocolVersion: 4 } as const;
  try {
    const client = await connectAsync(`mqtt://127.0.0.1:${mqttPortOf(at)}`, options, false);
    client.end(true);
    return 0;
  } catch (error) {
    return (error as { code: number }).code;
  }
}

const bad: [string, () => string | Promise<string>][] = [
  ['is expired', () => token({ expiresInS: -40 })],
  ['is signed by another key', () => token({ key: generateKeyPairSync('ed25519').privateKey })],
  ['has alg none', unsigned],
  ['is an HMAC keyed with the public key', () => token({ alg: 'HS256', key: publicKeyBytes() })],
  ['never expires', () => token({ expiresInS: null })],
  ['is valid for more than 24 hours', () => token({ expiresInS: 90_000 })],
  ['is for another audience', () => token({ audience: 'others' })],
  ['is of another issuer', () => token({ issuer: 'urn:others' })],
  ['was changed', async () => `${(await token({})).slice(0, -4)}AAAA`],
  ['is not a token', () => 'a.b.c'],
  ['is empty', () => ''],
];

describe('a token that', () => {
  it.each(bad)('%s is refused by every edge', async (_what, make) => {
    const bearer = await make();
    for (const path of ['/v1/auth/me', '/v1/devices', '/api/v1/devices']) {
      const answer = await at.api(bearer).get(path, { authorization: `Bearer ${bearer}` });
      expect(answer).toMatchObject({ status: 401, body: { code: 'UNAUTHENTICATED' } });
      expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer/);
      expect(JSON.stringify(answer.body)).not.toContain(bearer || 'stack');
    }
    expect(await webSocket(bearer)).toBe(4401);
    expect(await mqtt(bearer)).toBe(5);
  });

  it('is valid is accepted by all three', async () => {
    const bearer = await token({});
    expect((await at.api(bearer).get('/v1/devices')).status).toBe(200);
    expect(await webSocket(bearer)).toBeNull();
    expect(await mqtt(bearer)).toBe(0);
  });

  it('expires while in use closes its connections', async () => {
    const bearer = await token({ expiresInS: 300 });
    const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${bearer}`);
    const closed = new Promise<number>((resolve) => socket.once('close', resolve));
    await new Promise((resolve) => socket.once('open', resolve));
    const listener = await connectAsync(`mqtt://127.0.0.1:${mqttPortOf(at)}`, {
      username: 'jwt',
      password: bearer,
      reconnectPeriod: 0,
      protocolVersion: 4,
    });
    await listener.subscribeAsync(`proto/${owner.tenantId}/device/#`);
    at.clock.advance(331_000);
    expect(await closed).toBe(4401);
    await eventually(() => !listener.connected);
    expect((await at.api(bearer).get('/v1/devices')).status).toBe(401);
    listener.end(true);
  });

  it('was logged out is refused', async () => {
    const bearer = await token({});
    expect((await at.api(bearer).post('/v1/auth/logout')).body).toEqual({ status: 'logged_out' });
    expect((await at.api(bearer).get('/v1/devices')).status).toBe(401);
    expect(await webSocket(bearer)).toBe(4401);
    expect(await mqtt(bearer)).toBe(5);
  });
});

describe('an API key', () => {
  const graphql = (bearer: string, query: string) => at.api(bearer).post('/graphql', { query });
  const answers = async (bearer: string) => [
    (await at.api(bearer).get('/v1/devices')).status,
    (await graphql(bearer, '{ devices { edges { node { id } } } }')).body.data?.devices.edges ?? null,
    await webSocket(bearer),
    await mqtt(bearer),
  ];

  it('begins with `twk_`, and is accepted by every edge with exactly its text', async () => {
    const { body } = await owner.post('/v1/auth/api-keys', { name: 'all edges', scopes: ['read:devices'] });
    const made: string = body.key;
    expect(made).toMatch(/^twk_[a-z2-7]{8}_[0-9A-Za-z]{49}$/);
    expect(await answers(made)).toEqual([200, [], null, 0]);
    // With another last digit the checksum is wrong; the others lack the prefix, or have that of earlier keys.
    const changed = made.slice(0, -1) + (made.endsWith('0') ? '1' : '0');
    for (const text of [changed, made.slice(0, -6), made.slice(4), made.replace('twk_', 'tk_'), made.toUpperCase()])
      expect([text, await answers(text)]).toEqual([text, [401, null, 4401, 5]]);
  });

  it('is not made without scopes, over REST and GraphQL', async () => {
    for (const scopes of [undefined, []]) {
      const { status, body } = await owner.post('/v1/auth/api-keys', { name: 'x', scopes });
      expect([status, body.code, body.errors?.[0]?.path]).toEqual([400, 'VALIDATION_FAILED', 'scopes']);
    }
    const create = (scopes: string) =>
      `mutation { createApiKey(input: { name: "x"${scopes} }) { ... on CreateApiKeyResult { key } ... on Refused { code } } }`;
    const empty = await graphql(owner.token, create(', scopes: []'));
    expect(empty.body.data.createApiKey).toEqual({ code: 'VALIDATION_FAILED' });
    const { body } = await graphql(owner.token, create(''));
    expect([body.data, body.errors[0].extensions.code]).toEqual([undefined, 'VALIDATION_FAILED']);
    const { keys } = (await owner.get('/v1/auth/api-keys')).body;
    expect(keys.map(({ name }: { name: string }) => name)).toEqual(['all edges']);
  });
});
