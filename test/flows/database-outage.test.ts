import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { Device, packets, Raw } from '../edges/mqtt/client.ts';
import { eventLoopTurns, eventually } from '../support/clock.ts';
import { type Deployment, makePostgresDeployment } from '../support/deployment.ts';
import { register } from '../support/device.ts';
import { deviceOf, mqttPortOf, rawClientOptions, readCounter } from '../support/raw-device.ts';
import { type ApiClient, type ApiResponse, startService, type TestService } from '../support/service.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { Workload } from '../support/workload.ts';

/**
 * Application name of the lock connection, which stays up: without the lock the service would end instead of waiting.
 */
const LOCK = 'twinkeep active lock';
/** Part of the message that runs the prepared statement of a batch. */
const COMMIT = 'commit_';
/** Instead of ten seconds. */
const DEVICES_WAIT_MS = 4_000;

describe.runIf(inject('postgresUrl'))('a database outage', () => {
  let deployment: Deployment;
  let line: TcpProxy;
  let at: TestService;
  let owner: ApiClient & { homeId: string };
  let crowd: Workload;

  beforeAll(async () => {
    deployment = (await makePostgresDeployment()) as Deployment;
    line = await startTcpProxy(deployment.databaseUrl ?? '');
    at = await startService(
      { ...deployment.env, DATABASE_URL: line.proxiedUrl(deployment.databaseUrl ?? '') },
      { limits: { mqtt: { closeJitterMs: 500 }, runtime: { deviceTimeoutMs: DEVICES_WAIT_MS } } },
    );
    owner = await at.owner();
    crowd = new Workload(owner);
    await Promise.all([crowd.addDevice(), crowd.addDevice(), crowd.addDevice({ critical: true })]);
  });
  afterAll(async () => {
    line.restore();
    await crowd.close();
    await at.stop();
    await line.close();
    await deployment.remove();
  });

  async function timed(request: () => Promise<ApiResponse>) {
    const started = performance.now();
    const answer = await request();
    return { answer, took: performance.now() - started };
  }

  it.each(['cut', 'hold'] as const)('is not noticed during a short interruption (%s)', async (how) => {
    await crowd.waitForProgress();
    crowd.refused.clear();
    line[how](LOCK);
    const reading = owner.get('/v1/homes');
    const writing = owner.post('/v1/homes', { home_name: 'Blink' });
    // Well below the two seconds that a caller waits.
    await eventually(() => line.blocked() > 0);
    line.restore();
    expect((await reading).status).toBe(200);
    expect((await writing).status).toBe(201);
    await crowd.waitForProgress();
    expect(Object.fromEntries(crowd.refused)).toEqual({});
    for (const { device } of crowd.counters) expect(device.online).toBe(true);
  });

  it.each(['before', 'after'] as const)('can lose the connection in a COMMIT, %s it took effect', async (when) => {
    for (let n = 0; n < 5; n += 1) {
      await line.breakAt(COMMIT, when);
      await crowd.waitForProgress(1);
    }
    expect(Object.fromEntries(crowd.refused)).toEqual({});
    for (const { device } of crowd.counters) expect(device.online).toBe(true);
  });

  it('applies backpressure to devices: no more is read from each than may be in flight', async () => {
    const device = deviceOf(await register(owner));
    const { raw, clientId } = await Raw.signedIn(rawClientOptions(at), device, mqttPortOf(at));
    const helper = await Device.connect(rawClientOptions(at), deviceOf(await register(owner)), mqttPortOf(at));
    const voice = helper.as(device, clientId);
    const sent = Array.from({ length: 200 }, (_, n) =>
      packets.publish(voice.topic('state'), voice.compose('state', { state: { n: n + 1 } }), { id: n + 1 }),
    );
    const read = () => readCounter(at, 'mqtt_messages_total', 'state');
    line.hold(LOCK);
    const before = await read();
    raw.socket.write(Buffer.concat(sent));
    await eventually(async () => (await read()) >= before + 32);
    await eventLoopTurns();
    // Each of the devices has a report in flight.
    expect(await read()).toBeLessThanOrEqual(before + 32 + crowd.counters.length);
    expect(raw.bytes.length).toBe(0);
    line.restore();
    await eventually(() => raw.bytes.length === 4 * sent.length);
    raw.socket.destroy();
    helper.mqtt.end(true);
  });

  it.each(['cut', 'hold'] as const)(
    'makes callers wait two seconds, and devices longer, while it is away (%s)',
    async (how) => {
      // Not the lock: a confirmation covers the name of its device, so a rename would have it refused.
      const light = crowd.counters.find(({ critical }) => !critical);
      const sessions = crowd.counters.map(({ device }) => new Promise((resolve) => device.once('offline', resolve)));
      const gone = performance.now();
      line[how](LOCK);
      const requested = await Promise.all([
        timed(() => owner.get('/v1/homes')),
        timed(() => owner.post('/v1/homes', { home_name: 'Gone' })),
        timed(() => owner.patch(`/v1/devices/${light?.id}`, { name: 'Gone' })),
      ]);
      for (const { answer, took } of requested) {
        expect(answer).toMatchObject({ status: 503, body: { code: 'STORE_UNAVAILABLE' } });
        expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
        expect(took).toBeGreaterThan(1_500);
      }
      const ready = await eventually(async () => {
        const answer = await at.api('').get('/health/ready');
        return answer.status === 503 ? answer : null;
      });
      expect(ready.body).toMatchObject({ checks: { database: false } });
      expect((await at.api('').get('/health/live')).status).toBe(200);
      await Promise.all(sessions);
      // Less by the time for which a message of a device already waited for its commit.
      expect(performance.now() - gone).toBeGreaterThan(0.75 * DEVICES_WAIT_MS);
      line.restore();
      await crowd.waitForProgress(2, inject('pollMs') - Math.round(performance.now() - gone));
      await eventually(async () => (await at.api('').get('/health/ready')).status === 200);
    },
  );

  it('has lost nothing that was acknowledged, and stored nothing twice', async () => {
    await crowd.verify();
    expect(at.fatal).toEqual([]);
  });
});
