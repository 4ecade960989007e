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

/** Admits with a ticket, which is kept in the cache. */
async function watch(owner: ApiClient): Promise<WebSocket> {
  const { body } = await owner.post('/ws/ticket');
  const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${body.ticket}`);
  await waitUntilAuthorized(socket);
  return socket;
}

/** A user signs in for the first time, commands a device and receives its state in a stream. */
async function worksThrough(): Promise<void> {
  const owner = await at.owner(`owner-${crypto.randomUUID()}`);
  const registered = await register(owner);
  const device = await connect(registered, { commands: { turn_on: () => ({ state: { on: true } }) } });
  const socket = await watch(owner);
  const received = new Promise((resolve) => socket.once('message', resolve));
  const { status, body } = await owner.post(`/v1/device/${registered.device_id}/command`, { action: 'turn_on' });
  expect(status).toBe(202);
  await waitForCommand(owner, body.command_id, (command) => command.status === 'succeeded');
  expect(JSON.parse(String(await received))).toMatchObject({ type: 'state_update', state: { on: true } });
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
  const status = await at.api().get('/status');
  expect([status.status, status.body.status]).toEqual([200, 'degraded']);
}

describe.runIf(inject('redisUrl'))('a Redis outage', () => {
  it('at the start: the service starts, reports it, works, and recovers when Redis is available', async () => {
    at = await start();
    await isDegraded();
    await worksThrough();
    await redis.start();
    await isWhole();
    await worksThrough();
    await redis.kill();
  });

  it('during operation does not affect commands, streams and sign-ins, although Redis restarts empty', async () => {
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
    // The new Redis is empty; what the process kept is written to it again.
    for (const { ticket } of [before, meanwhile]) {
      const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${ticket}`);
      await waitUntilAuthorized(socket);
      socket.close();
    }
    await worksThrough();
    await redis.kill();
  });

  it('with an unresponsive Redis is detected without requests', async () => {
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

  it('does not reset exceeded rate limits, nor does a restarted process', async () => {
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
