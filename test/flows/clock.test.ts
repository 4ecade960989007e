import { afterAll, afterEach, beforeAll, expect, inject, it } from 'vitest';
import type { Presence } from '../../src/actors/presence.ts';
import type { Log } from '../../src/domain/log.ts';
import { connack, credentials, Device } from '../edges/mqtt/client.ts';
import { eventually } from '../support/clock.ts';
import { eachDeployment, makePostgresDeployment, oneDeployment } from '../support/deployment.ts';
import { register, waitForCommand } from '../support/device.ts';
import { deviceOf, mqttPortOf, rawClientOptions } from '../support/raw-device.ts';
import { startService, type TestService } from '../support/service.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const REFUSED = 5;

/** Log lines of level `warn`, as text. */
function warnings(): { lines: string[]; log: Log } {
  const lines: string[] = [];
  return { lines, log: { debug() {}, info() {}, warn: (_, text) => lines.push(text), error() {} } };
}

const isFinal = ({ status }: { status: string }) => ['expired', 'timed_out'].includes(status);

eachDeployment('a host whose clock is stepped', (deployment) => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let ahead = 0;
  const { lines, log } = warnings();
  /** The time of devices with a correct clock: the database's, or the host's if the store is embedded. */
  const rightTime = () => Date.now() + (deployment().databaseUrl === null ? ahead : 0);
  const world = () => ({ ...rawClientOptions(at), now: rightTime() });

  beforeAll(async () => {
    at = await startService(deployment().env, { log, wallClock: () => Date.now() + ahead });
    owner = await at.owner();
  });
  afterEach(() => {
    ahead = 0;
  });
  afterAll(() => at.stop());

  const online = async (id: string): Promise<boolean> => (await owner.get(`/v1/devices/${id}`)).body.device.online;

  it('lets devices sign in and report while its clock is an hour slow, with each token once', async () => {
    const registered = await register(owner);
    ahead = -HOUR;
    const token = credentials(world(), deviceOf(registered));
    expect(await connack(mqttPortOf(at), token)).toBe(0);
    expect(await connack(mqttPortOf(at), token)).toBe(REFUSED);
    const device = await Device.connect(world(), deviceOf(registered), mqttPortOf(at));
    await device.listen();
    await device.send('state', { state: { n: 1 } });
    // Acknowledged reports are stored.
    const { body } = await owner.get(`/v1/devices/${registered.device_id}`);
    expect(body.device).toMatchObject({ online: true, state: { n: 1 } });
    await device.mqtt.endAsync(true);
  });

  it('applies command deadlines by its own clock while it is an hour slow', async () => {
    const { device_id: id } = await register(owner);
    const before = await owner.post(`/v1/device/${id}/command`, { action: 'turn_on', ttl_s: 2 });
    ahead = -HOUR;
    const since = await owner.post(`/v1/device/${id}/command`, { action: 'turn_on', ttl_s: 2 });
    for (const { status, body } of [before, since]) {
      expect([status, body]).toEqual([202, body]);
      await waitForCommand(owner, body.command_id, isFinal);
    }
  });

  it('keeps a connected device online while its clock is four minutes fast', async () => {
    const registered = await register(owner);
    const device = await Device.connect(world(), deviceOf(registered), mqttPortOf(at));
    await device.listen();
    await device.send('hello', { protocol: 'PROTO/3.1' });
    await eventually(() => online(registered.device_id));
    ahead = 4 * MINUTE;
    const dispatched = await owner.post(`/v1/device/${registered.device_id}/command`, {
      action: 'turn_on',
      ttl_s: 60,
    });
    await (at.services.sessions as Presence).tick();
    expect(await online(registered.device_id)).toBe(true);
    const { body } = await owner.get(`/v1/commands/${dispatched.body.command_id}`);
    expect(isFinal(body.command)).toBe(false);
    await device.mqtt.endAsync(true);
  });

  it('reports the clock error in /health, in the metrics and in the log, until it is corrected', async () => {
    expect((await at.api().get('/health')).status).toBe(200);
    ahead = 400 * DAY;
    const answer = await eventually(async () => {
      const health = await at.api().get('/health');
      return health.status === 503 ? health.body : null;
    });
    expect(answer).toMatchObject({ status: 'degraded', checks: { database: true, clock: false } });
    // Devices without a clock use it.
    expect(Math.abs(Date.parse(answer.clock.timestamp) - rightTime())).toBeLessThan(10_000);
    const { host_offset_s, correction_s } = answer.clock;
    expect(host_offset_s + correction_s).toBeCloseTo((400 * DAY) / 1000, -1);
    const { body } = await at.api().get('/metrics');
    const gauge = deployment().databaseUrl === null ? 'clock_correction_seconds' : 'clock_offset_seconds';
    expect(Number(new RegExp(`^twinkeep_${gauge} (.+)$`, 'm').exec(body)?.[1])).toBeCloseTo((400 * DAY) / 1000, -1);
    expect((await at.api().get('/health/ready')).status).toBe(200);
    await eventually(() => lines.some((line) => line.startsWith('clock is more than a minute off')));
    ahead = 0;
    await eventually(async () => (await at.api().get('/health')).status === 200);
  });
});

oneDeployment('a successor process', (deployment) => {
  it('accepts a device with a slow clock at once, but no token that opened an earlier session', async () => {
    const first = await startService(deployment().env);
    const device = deviceOf(await register(await first.owner()));
    const slow = () => credentials(rawClientOptions(first), device, Date.now() - 100_000);
    const used = slow();
    expect(await connack(mqttPortOf(first), used)).toBe(0);
    await first.stop();
    const second = await startService(deployment().env);
    expect(await connack(mqttPortOf(second), used)).toBe(REFUSED);
    expect(await connack(mqttPortOf(second), slow())).toBe(0);
    await second.stop();
  });
});

it.runIf(inject('postgresUrl'))(
  'a process does not become active while the clock of its host is more than a minute off',
  async () => {
    const deployment = await makePostgresDeployment();
    let ahead = 400 * DAY;
    const { lines, log } = warnings();
    const at = await startService(deployment?.env, {
      ...{ log, wallClock: () => Date.now() + ahead, limits: { clockCheckMs: 50 }, standsBy: true },
    });
    const health = await eventually(async () => {
      const { status, body } = await at.api().get('/health');
      return status === 503 && body.checks.clock === false ? body : null;
    });
    expect(health).toMatchObject({ status: 'degraded', checks: { api: true, worker: false, clock: false } });
    expect(health.clock.host_offset_s).toBeCloseTo((400 * DAY) / 1000, -1);
    expect((await at.api().get('/health/ready')).body).toEqual({ status: 'standby' });
    expect(lines).toEqual([
      'standby: the host clock is more than a minute off the database clock; not becoming active',
    ]);
    ahead = 59_000;
    await at.service.active;
    expect((await at.api().get('/health')).status).toBe(200);
    await at.stop();
    await deployment?.remove();
  },
);

it.runIf(inject('postgresUrl'))(
  'a process does not become active after a database outage while the clock of its host is off',
  async () => {
    const deployment = await makePostgresDeployment();
    const line = await startTcpProxy(String(deployment?.env.DATABASE_URL));
    line.cut();
    let ahead = 400 * DAY;
    const { lines, log } = warnings();
    const env = { ...deployment?.env, DATABASE_URL: line.proxiedUrl(String(deployment?.env.DATABASE_URL)) };
    const at = await startService(env, {
      ...{ log, wallClock: () => Date.now() + ahead, limits: { clockCheckMs: 2_000 }, standsBy: true },
    });
    await eventually(() => lines.includes('active lock: waiting; database unavailable'));
    line.restore();
    const health = await eventually(async () => {
      const { status, body } = await at.api().get('/health');
      return status === 503 && body.checks.clock === false ? body : null;
    });
    expect(health.checks).toEqual({ api: true, worker: false, clock: false });
    expect((await at.api().get('/health/ready')).body).toEqual({ status: 'standby' });
    ahead = 0;
    await at.service.active;
    await at.stop();
    await line.close();
    await deployment?.remove();
  },
);
