import { randomUUID } from 'node:crypto';
import { connectAsync } from 'mqtt';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { Device, packet, packets, Raw } from '../edges/mqtt/client.ts';
import { eventually } from '../support/clock.ts';
import { register } from '../support/device.ts';
import { mapConcurrently } from '../support/map-concurrently.ts';
import { connectRawDevice, deviceOf, mqttPortOf, rawClientOptions, readCounter } from '../support/raw-device.ts';
import { startService, type TestService } from '../support/service.ts';
import { Workload } from '../support/workload.ts';

const FLOODING = 200;
const EACH = 60;

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
/** Devices that keep to the protocol: they must not be affected. */
let crowd: Workload;

beforeAll(async () => {
  at = await startService({ DEVICE_RATE: '1000/1000' });
  owner = await at.owner();
  crowd = new Workload(owner);
  await Promise.all([crowd.addDevice(), crowd.addDevice({ critical: true })]);
});
afterAll(async () => {
  await crowd.close();
  await at.stop();
});

/** Number of PUBACKs received; a device without a subscription receives nothing else. */
const pubacks = (raw: Raw): number => Math.floor(raw.bytes.length / 4);

describe('200 devices that flood and are disconnected in the middle', () => {
  it('lose nothing that was acknowledged, and do not affect other devices', async () => {
    const registered = await mapConcurrently([...Array(FLOODING).keys()], () => register(owner));
    const service = rawClientOptions(at);
    const helper = await connectRawDevice(at, registered[0]);
    helper.mqtt.setMaxListeners(0);
    const floods = await Promise.all(
      registered.map(async (one) => {
        const device = deviceOf(one);
        const { raw, clientId } = await Raw.signedIn(service, device, mqttPortOf(at));
        const voice = helper.as(device, clientId);
        const sent = Array.from({ length: EACH }, (_, n) =>
          packets.publish(voice.topic('state'), voice.compose('state', { state: { n: n + 1 } }), { id: n + 1 }),
        );
        return { device, raw, sent: Buffer.concat(sent) };
      }),
    );
    helper.mqtt.end(true);
    const commands = await owner.post('/v1/devices/command', {
      device_ids: floods.map(({ device }) => device.deviceId),
      action: 'turn_on',
    });
    expect(commands.status).toBe(200);
    for (const { raw, sent } of floods) raw.socket.write(sent);
    await eventually(() => floods.reduce((sum, { raw }) => sum + pubacks(raw), 0) > FLOODING * 5);
    for (const { raw } of floods) raw.socket.destroy();
    await crowd.waitForProgress();
    const { body } = await owner.get(`/v1/devices?limit=200`);
    expect(body.count).toBe(FLOODING + 2);
    for (const { device, raw } of floods) {
      const shown = await eventually(async () => {
        const answer = await owner.get(`/v1/devices/${device.deviceId}`);
        return answer.body.device.online ? null : answer.body.device;
      });
      expect(shown.state_version).toBeGreaterThanOrEqual(pubacks(raw));
      expect(shown.state.n ?? 0).toBe(shown.state_version);
    }
  });
});

describe('a listener that stops reading', () => {
  it('is disconnected, while other listeners get every update and devices are not delayed', async () => {
    const options = { username: 'jwt', password: owner.token, reconnectPeriod: 0, protocolVersion: 4 } as const;
    const url = `mqtt://127.0.0.1:${mqttPortOf(at)}`;
    const [frozen, live] = await Promise.all([connectAsync(url, options), connectAsync(url, options)]);
    const speaker = await connectRawDevice(at, await register(owner));
    const received = new Set<string>();
    live.on('message', (_topic, payload) => received.add(JSON.parse(String(payload)).message_id));
    await Promise.all([frozen, live].map((one) => one.subscribeAsync(speaker.topic('state'), { qos: 1 })));
    frozen.stream.pause();
    const slow = () => readCounter(at, 'mqtt_closed_total', 'slow');
    const before = await slow();
    const sent: string[] = [];
    while ((await slow()) === before) {
      const round = Array.from({ length: 20 }, () => randomUUID());
      sent.push(...round);
      await Promise.all(
        round.map((messageId, n) => speaker.send('state', { state: { text: 'x'.repeat(25_000), n } }, { messageId })),
      );
      expect(sent.length).toBeLessThan(2_000);
    }
    await eventually(() => sent.every((messageId) => received.has(messageId)));
    frozen.end(true);
    live.end(true);
    speaker.mqtt.end(true);
  });
});

describe('a client that has not signed in', () => {
  /** The header of a CONNECT that announces 256 MiB, the maximum of MQTT. */
  const huge = Buffer.from([0x10, 0xff, 0xff, 0xff, 0x7f]);

  it('cannot occupy memory: announcing more than 4 KiB ends its connection', async () => {
    const before = await readCounter(at, 'mqtt_closed_total', 'oversized');
    const peers = await Promise.all(Array.from({ length: 50 }, () => Raw.open(mqttPortOf(at))));
    for (const { socket } of peers) socket.write(Buffer.concat([huge, Buffer.alloc(65_536)]));
    await Promise.all(peers.map((peer) => peer.closed()));
    expect(await readCounter(at, 'mqtt_closed_total', 'oversized')).toBe(before + 50);
    for (const { bytes } of peers) expect(bytes.length).toBe(0);
  });

  it('cannot occupy memory over a WebSocket either', async () => {
    const socket = new WebSocket(`${at.url.replace('http', 'ws')}/mqtt`, 'mqtt');
    const closed = new Promise((resolve) => socket.once('close', resolve).on('error', resolve));
    await new Promise((resolve) => socket.once('open', resolve));
    socket.send(Buffer.concat([huge, Buffer.alloc(100_000)]));
    await closed;
  });

  it('may send its CONNECT slowly, without delaying other clients', async () => {
    const peers = await Promise.all(Array.from({ length: 20 }, () => Raw.open(mqttPortOf(at))));
    const connect = packet(0x10, Buffer.from([0, 4]), Buffer.from('MQTT'), Buffer.alloc(200));
    for (const { socket } of peers) socket.write(connect.subarray(0, 3));
    await crowd.waitForProgress();
    for (const { socket } of peers) socket.write(connect.subarray(3, 40));
    await crowd.waitForProgress();
    for (const peer of peers) expect(peer.bytes.length).toBe(0);
    for (const { socket } of peers) socket.destroy();
  });
});

describe('the devices that keep to the protocol', () => {
  it('lost nothing, and nothing was applied twice', async () => {
    await crowd.verify();
    expect(Object.fromEntries(crowd.refused)).toEqual({});
    const newUser = await Device.connect(rawClientOptions(at), deviceOf(await register(owner)), mqttPortOf(at));
    await newUser.send('state', { state: { welcome: true } });
    newUser.mqtt.end(true);
  });
});
