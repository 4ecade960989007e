import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Device } from '../../src/device/device.ts';
import { newDeviceSecret, signingKey } from '../../src/protocol/signature.ts';
import { eventually } from '../support/clock.ts';
import { makeDeployment } from '../support/deployment.ts';
import { connect, register } from '../support/device.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import { type ApiClient, type ApiResponse, makeApiClient, startService, type TestService } from '../support/service.ts';
import { freePorts, newOwner, serve } from '../support/spawn-service.ts';
import { waitUntilAuthorized } from '../support/wait-until-authorized.ts';

const online = async (caller: ApiClient, id: string): Promise<boolean> =>
  (await caller.get(`/v1/devices/${id}`)).body.device.online;

async function stream(at: TestService, token: string) {
  const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${token}&events=presence`);
  const notified: [string, boolean][] = [];
  socket.on('message', (data) => {
    if (String(data) === 'pong') return;
    const message = JSON.parse(String(data));
    notified.push([message.device_id, message.online]);
  });
  await waitUntilAuthorized(socket);
  return { notified, of: (id: string) => notified.filter(([one]) => one === id).map(([, on]) => on), socket };
}

describe('a device', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let received: Awaited<ReturnType<typeof stream>>;
  const devices: Device[] = [];

  beforeAll(async () => {
    at = await startService();
    owner = await at.owner();
    received = await stream(at, owner.token);
  });
  afterAll(async () => {
    received.socket.terminate();
    await Promise.all(devices.map((device) => device.close(0)));
    await at.stop();
  });

  it('is online from its first verified message until its session ends', async () => {
    const registered = await register(owner);
    const id = registered.device_id;
    const speaker = await connectRawDevice(at, registered);
    await speaker.send('state', { state: {} }, { key: signingKey('hmac-sha256', newDeviceSecret()) });
    expect(await online(owner, id)).toBe(false);
    await speaker.send('heartbeat', { battery: 71 });
    expect((await owner.get(`/v1/devices/${id}`)).body.device).toMatchObject({ online: true, battery: 71 });
    expect((await owner.get('/v1/devices?online=true')).body.devices.map((one: { id: string }) => one.id)).toContain(
      id,
    );
    speaker.mqtt.end(true);
    await eventually(async () => !(await online(owner, id)));
    await eventually(() => received.of(id).length === 2);
    expect(received.of(id)).toEqual([true, false]);
  });

  it('is offline after three missed heartbeat intervals although its session stands, and online with its next message', async () => {
    const registered = await register(owner);
    const id = registered.device_id;
    const [silent, talking] = [
      await connectRawDevice(at, registered),
      await connect(await register(owner), { clock: at.clock }),
    ];
    devices.push(talking);
    await silent.send('heartbeat', {});
    at.clock.advance(150_000);
    await talking.report({ still: 'here' });
    expect(await online(owner, id)).toBe(true);
    at.clock.advance(31_000);
    await eventually(async () => !(await online(owner, id)));
    expect(await online(owner, talking.deviceId)).toBe(true);
    expect(silent.mqtt.connected).toBe(true);
    await silent.send('heartbeat', {});
    expect(await online(owner, id)).toBe(true);
    await eventually(() => received.of(id).length === 3);
    expect(received.of(id)).toEqual([true, false, true]);
    silent.mqtt.end(true);
  });

  it('that reconnects is not offline in between', async () => {
    const registered = await register(owner);
    const first = await connectRawDevice(at, registered);
    await first.send('heartbeat', {});
    const second = await connectRawDevice(at, registered);
    await first.closed();
    await second.send('heartbeat', {});
    expect(await online(owner, registered.device_id)).toBe(true);
    await eventually(() => received.of(registered.device_id).length > 0);
    expect(received.of(registered.device_id)).toEqual([true]);
    second.mqtt.end(true);
  });
});

describe('after a crash', () => {
  const closing: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  it('a device that does not return within 60 s is offline, and one that returns was never offline', async () => {
    const deployment = await makeDeployment();
    closing.push(deployment.remove);
    const ports = await freePorts();
    const doomed = serve(deployment, ports);
    closing.push(() => doomed.kill());
    await doomed.active();
    const owner = await newOwner(deployment, (token) => makeApiClient(doomed.url, token));
    const [lost, back] = (await Promise.all([register(owner), register(owner)])) as [
      ApiResponse['body'],
      ApiResponse['body'],
    ];
    const gone = await connect(lost);
    const returning = await connect(back);
    closing.push(() => returning.close(0));
    await doomed.kill();
    await gone.close(0);

    const at = await startService({ ...deployment.env, ...ports });
    closing.push(() => at.stop());
    const received = await stream(at, owner.token);
    await eventually(() => returning.online);
    expect([await online(owner, gone.deviceId), await online(owner, returning.deviceId)]).toEqual([true, true]);
    at.clock.advance(61_000);
    await eventually(async () => !(await online(owner, gone.deviceId)));
    expect(await online(owner, returning.deviceId)).toBe(true);
    await eventually(() => received.notified.length > 0);
    expect(received.notified).toEqual([[gone.deviceId, false]]);
    received.socket.terminate();
  });
});
