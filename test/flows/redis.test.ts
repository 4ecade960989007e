import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { WebSocket } from 'ws';
import { eventually } from '../support/clock.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { type ApiClient, startService, type TestService } from '../support/service.ts';
import { makeTestRedis, type TestRedis } from '../support/test-redis.ts';
import { waitUntilAuthorized } from '../support/wait-until-authorized.ts';

let redis: TestRedis;
beforeAll(async () => {
  const own = await makeTestRedis();
  if (own !== null) redis = own;
});
afterAll(() => redis?.kill());

let at: TestService;
afterEach(() => at.stop());

const start = (env: Record<string, string> = {}, more: Parameters<typeof startService>[1] = {}) =>
  startService({ REDIS_URL: redis.url, ...env }, more);

const health = () => at.api().get('/health');
const isWhole = () => eventually(async () => (await health()).status === 200);

/** Lets in with a ticket, which the cache keeps. */
async function watch(owner: ApiClient): Promise<WebSocket> {
  const { body } = await owner.post('/ws/ticket');
  const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${body.ticket}`);
  await waitUntilAuthorized(socket);
  return socket;
}

/** A person signs in for the first time, commands a device and sees its state in a stream. */
async function worksThrough(): Promise<void> {
  const owner = await at.owner(`owner-${crypto.randomUUID()}`);
  const registered = await register(owner);
  const device = await connect(registered, { commands: { turn_on: () => ({ state: { on: true } }) } });
  const socket = await watch(owner);
  const heard = new Promise((resolve) => socket.once('message', resolve));
  const { status, body } = await owner.post(`/v1/device/${registered.device_id}/command`, { action: 'turn_on' });
  expect(status).toBe(202);
  await waitForCommand(owner, body.command_id, (command) => command.status === 'succeeded');
  expect(JSON.parse(String(await heard))).toMatchObject({ type: 'state_update', state: { on: true } });
  socket.close();
  await device.close();
}

async function isDegraded(): Promise<void> {
  await eventually(async () => (await health()).status === 503);
  expect((await health()).body).toMatchObject({
    status: 'degraded',
    checks: { redis: false, database: true, api: true },
  });
  const ready = await at.api().get('/health/ready');
  expect([ready.status, ready.body]).toEqual([503, { status: 'degraded', checks: { database: true, cache: false } }]);
  expect((await at.api().get('/health/live')).status).toBe(200);
}

describe.runIf(inject('redisUrl'))('a Redis that goes away', () => {
  it('at the start leaves a service that starts, says so, works, and is whole when Redis comes', async () => {
    at = await start();
    await isDegraded();
    await worksThrough();
    await redis.start();
    await isWhole();
    await worksThrough();
    await redis.kill();
  });

  it('while the service runs is no matter for commands, streams and sign-ins, though killed and started empty', async () => {
    await redis.start();
    at = await start();
    await isWhole();
    const owner = await at.owner();
    const { body: before } = await owner.post('/ws/ticket');
    await redis.kill();
    await isDegraded();
    await worksThrough();
    const { body: meanwhile } = await owner.post('/ws/ticket');
    await redis.start();
    await isWhole();
    // The new Redis knows nothing; what the process kept is there again.
    for (const { ticket } of [before, meanwhile]) {
      const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${ticket}`);
      await waitUntilAuthorized(socket);
      socket.close();
    }
    await worksThrough();
    await redis.kill();
  });

  it('without a word is noticed though nobody asks it anything', async () => {
    await redis.start();
    at = await start();
    await isWhole();
    redis.freeze();
    await isDegraded();
    await worksThrough();
    redis.thaw();
    await isWhole();
    await worksThrough();
    await redis.kill();
  });

  it('does not forget what was asked too often, nor does a process that is started again', async () => {
    await redis.start();
    const more = { limits: { rates: { anonymous: 10 } } };
    at = await start({}, more);
    await isWhole();
    const version = async () => (await at.api().get('/version')).status;
    for (let n = 0; n < 10; n++) expect(await version()).toBe(200);
    expect(await version()).toBe(429);
    await at.stop();
    at = await start({}, more);
    await eventually(async () => (await version()) === 429);
    redis.freeze();
    expect(await version()).toBe(429);
    redis.thaw();
    await redis.kill();
    expect(await version()).toBe(429);
  });
});
