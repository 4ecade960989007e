import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { connectAsync, type MqttClient } from 'mqtt';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { WebSocket } from 'ws';
import { eventually } from '../support/clock.ts';
import { oneDeployment } from '../support/deployment.ts';
import { mqttPortOf } from '../support/raw-device.ts';
import { type ApiClient, startService, type TestService } from '../support/service.ts';

type Owner = Awaited<ReturnType<TestService['owner']>>;

/** A WebSocket and an MQTT session that use a credential. */
interface Living {
  webSocket: Promise<number>;
  mqtt: MqttClient;
  mqttEnded: Promise<void>;
}

let open: (() => void)[] = [];
afterEach(() => {
  for (const close of open) close();
  open = [];
});

async function liveOn(at: TestService, credential: string, token = credential): Promise<Living> {
  const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${encodeURIComponent(token)}`);
  const webSocket = new Promise<number>((resolve) => socket.once('close', resolve));
  const spoke = new Promise((resolve) => socket.once('message', resolve));
  await new Promise((resolve) => socket.once('open', resolve));
  socket.send('ping');
  await Promise.race([spoke, webSocket.then((code) => Promise.reject(new Error(`closed with ${code}`)))]);
  const options = { username: 'jwt', password: credential, reconnectPeriod: 0, protocolVersion: 4 } as const;
  const mqtt = await connectAsync(`mqtt://127.0.0.1:${mqttPortOf(at)}`, options, false);
  mqtt.on('error', () => {});
  const mqttEnded = new Promise<void>((resolve) => mqtt.once('close', () => resolve()));
  open.push(
    () => socket.terminate(),
    () => mqtt.end(true),
  );
  return { webSocket, mqtt, mqttEnded };
}

/** Resolves when both have ended, with the close code of the WebSocket. */
async function bothEnd(living: Living): Promise<number> {
  const [code] = await Promise.all([living.webSocket, living.mqttEnded]);
  return code;
}

const newKey = async (who: ApiClient, more: object = {}): Promise<{ key: string; prefix: string }> => {
  const made = await who.post('/v1/auth/api-keys', { name: 'k', scopes: ['all'], ...more });
  expect(made.status).toBe(201);
  return made.body;
};

async function member(at: TestService, owner: Owner, role: string): Promise<ApiClient & { userId: string }> {
  const sub = randomUUID();
  const email = `${sub}@example.com`;
  const who = at.api(await at.token(sub, { email }));
  const { body } = await owner.post('/v1/tenant/members', { email, role });
  await who.post(`/v1/auth/invitations/${body.member.id}/accept`);
  const { user } = (await who.get('/v1/auth/me')).body;
  expect(user.role).toBe(role);
  return { ...who, userId: user.id };
}

oneDeployment('a connection', (deployment) => {
  let at: TestService;
  let owner: Owner;
  beforeAll(async () => {
    at = await startService(deployment().env);
    owner = await at.owner();
  });
  afterAll(() => at.stop());

  it('ends when its user signs out everywhere', async () => {
    const user = await member(at, owner, 'user');
    const living = await liveOn(at, user.token);
    const [ended, code] = await Promise.all([user.delete('/v1/auth/sessions'), bothEnd(living)]);
    expect([ended.status, code]).toEqual([204, 4401]);
    expect((await user.get('/v1/auth/me')).status).toBe(401);
  });

  it('ends when an admin signs its user out, and one of another member does not', async () => {
    const [user, stays] = [await member(at, owner, 'user'), await member(at, owner, 'user')];
    const [living, other] = [await liveOn(at, user.token), await liveOn(at, stays.token)];
    const path = `/v1/tenant/members/${user.userId}/sessions`;
    const [ended, code] = await Promise.all([owner.delete(path), bothEnd(living)]);
    expect([ended.status, code, other.mqtt.connected]).toEqual([204, 4401, true]);
  });

  it('that uses a key ends when the key is revoked', async () => {
    const [{ key, prefix }, other] = [await newKey(owner), await newKey(owner)];
    const [living, stays] = [await liveOn(at, key), await liveOn(at, other.key)];
    const [, code] = await Promise.all([owner.post('/v1/auth/api-keys/revoke', { prefix }), bothEnd(living)]);
    expect(code).toBe(4401);
    expect((await at.api(key).get('/v1/devices')).status).toBe(401);
    await expect(liveOn(at, key)).rejects.toThrow('4401');
    expect(stays.mqtt.connected).toBe(true);
  });

  it('that uses a key ends when the key is rotated', async () => {
    const { key, prefix } = await newKey(owner);
    const living = await liveOn(at, key);
    const [rotated, code] = await Promise.all([owner.post('/v1/auth/api-keys/rotate', { prefix }), bothEnd(living)]);
    expect(code).toBe(4401);
    await liveOn(at, rotated.body.key);
  });

  it('that uses a key ends with the grace of the key, and not before', async () => {
    const { key, prefix } = await newKey(owner);
    const ticket = (await at.api(key).post('/ws/ticket')).body.ticket;
    const living = await liveOn(at, key);
    const rotated = await owner.post('/v1/auth/api-keys/rotate', { prefix, grace_s: 3600 });
    const late = await liveOn(at, key, ticket);
    at.clock.advance(3_500_000);
    expect((await at.api(key).get('/v1/devices')).status).toBe(200);
    expect([living.mqtt.connected, late.mqtt.connected]).toEqual([true, true]);
    const stays = await liveOn(at, rotated.body.key);
    at.clock.advance(100_000);
    expect(await Promise.all([bothEnd(living), bothEnd(late)])).toEqual([4401, 4401]);
    expect(stays.mqtt.connected).toBe(true);
  });

  it('that uses a key ends when the role of its creator becomes insufficient', async () => {
    const user = await member(at, owner, 'user');
    const { key } = await newKey(user);
    const [byKey, byToken] = [await liveOn(at, key), await liveOn(at, user.token)];
    const [, ...codes] = await Promise.all([
      owner.patch(`/v1/tenant/members/${user.userId}`, { role: 'viewer' }),
      bothEnd(byKey),
      bothEnd(byToken),
    ]);
    expect(codes).toEqual([4403, 4403]);
  });

  it('that uses a key or a token ends when its user leaves the tenant', async () => {
    const user = await member(at, owner, 'user');
    const { key } = await newKey(user);
    const [byKey, byToken] = [await liveOn(at, key), await liveOn(at, user.token)];
    const [, ...codes] = await Promise.all([
      user.delete(`/v1/tenant/members/${user.userId}`),
      bothEnd(byKey),
      bothEnd(byToken),
    ]);
    expect(codes).toEqual([4401, 4403]);
    expect((await at.api(key).get('/v1/auth/me')).status).toBe(401);
  });

  it('opened with a ticket of a key ends with the key, and a ticket of a revoked key is refused', async () => {
    const { key, prefix } = await newKey(owner);
    const ticket = async () => (await at.api(key).post('/ws/ticket')).body.ticket;
    const [used, unused] = [await ticket(), await ticket()];
    const living = await liveOn(at, key, used);
    const [, code] = await Promise.all([owner.post('/v1/auth/api-keys/revoke', { prefix }), bothEnd(living)]);
    expect(code).toBe(4401);
    await expect(liveOn(at, key, unused)).rejects.toThrow('4401');
  });

  it('that uses a key ends when the key expires, and not before', async () => {
    const { key } = await newKey(owner, { expires_at: new Date(at.clock.now() + 3_600_000).toISOString() });
    const living = await liveOn(at, key);
    at.clock.advance(3_500_000);
    expect((await at.api(key).get('/v1/devices')).status).toBe(200);
    expect(living.mqtt.connected).toBe(true);
    at.clock.advance(100_000);
    expect(await bothEnd(living)).toBe(4401);
    expect((await at.api(key).get('/v1/devices')).status).toBe(401);
  });
});

oneDeployment('after a restart', (deployment) => {
  it('keys, their last use, invitations and tokens presented at /mcp are unchanged', async () => {
    let at = await startService(deployment().env);
    const owner = await at.owner('ada');
    const { key, prefix } = await newKey(owner, { scopes: ['read:devices'] });
    const dead = await newKey(owner);
    await owner.post('/v1/auth/api-keys/revoke', { prefix: dead.prefix });
    expect((await at.api(key).get('/v1/devices')).status).toBe(200);
    await owner.post('/v1/tenant/members', { email: 'bea@example.com', role: 'user' });
    const agents = await at.token('ada');
    await at.services.authenticate(agents, { via: 'mcp', requestId: randomUUID(), address: null });
    expect((await at.api(agents).post('/v1/auth/api-keys', { name: 'x', scopes: ['all'] })).status).toBe(403);
    await at.stop();

    at = await startService(deployment().env);
    const mine = at.api(await at.token('ada'));
    const { keys } = (await mine.get('/v1/auth/api-keys')).body;
    expect(keys).toEqual([
      expect.objectContaining({ prefix: dead.prefix, revoked_at: expect.any(String) }),
      expect.objectContaining({ prefix, last_used_at: expect.any(String), revoked_at: null }),
    ]);
    expect((await at.api(key).get('/v1/devices')).status).toBe(200);
    expect((await at.api(key).get('/v1/homes')).status).toBe(403);
    expect((await at.api(dead.key).get('/v1/devices')).status).toBe(401);
    const bea = at.api(await at.token('bea', { email: 'bea@example.com' }));
    expect((await bea.get('/v1/auth/me')).body.invitations).toHaveLength(1);
    expect((await at.api(agents).get('/v1/auth/me')).status).toBe(200);
    for (const refused of [
      await at.api(agents).post('/v1/auth/api-keys', { name: 'x', scopes: ['all'] }),
      await at.api(agents).post('/v1/tenant/members', { email: 'x@example.com', role: 'user' }),
    ]) {
      expect([refused.status, refused.body.code]).toEqual([403, 'FORBIDDEN']);
    }
    await at.stop();
  });
});

const redisUrl = inject('redisUrl');
describe.runIf(redisUrl !== null)('with Redis', () => {
  it('changes by another process take effect within a second, also for open connections', async () => {
    const at = await startService({ REDIS_URL: redisUrl ?? '' });
    const owner = await at.owner();
    const { key, prefix } = await newKey(owner);
    const living = await liveOn(at, key);
    const redis = new Redis(redisUrl ?? '');
    // The database changes and notifications that another process would make.
    const elsewhere = (item: object) =>
      redis.publish('twinkeep:invalidations', `${randomUUID()} ${JSON.stringify(item)}`);
    await at.services.store.keys.revoke(prefix, at.clock.now());
    expect((await at.api(key).get('/v1/devices')).status).toBe(200);
    await elsewhere({ about: 'key', prefix });
    expect(await bothEnd(living)).toBe(4401);
    expect((await at.api(key).get('/v1/devices')).status).toBe(401);

    const user = await member(at, owner, 'user');
    await at.services.store.members.setRole(owner.tenantId, user.userId, 'viewer');
    expect((await user.get('/v1/devices')).status).toBe(200);
    await elsewhere({ about: 'user', id: user.userId });
    await eventually(async () => (await user.get('/v1/devices')).status === 403);
    redis.disconnect();
    await at.stop();
  });
});
