import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { newDeviceSecret } from '../../src/protocol/signature.ts';
import { cloud, start, startOnline, until, withSmallCloud } from './device-fixture.ts';

withSmallCloud();

const sequencesOf = (channel: string) =>
  cloud.received.filter((message) => message.channel === channel).map((message) => message.fields.sequence_number);

describe('signing in', () => {
  it('subscribes, sends hello, and is online after the answer', async () => {
    const device = await start({ firmware: '1.4.2', deviceType: 'smart_light', manifestVersion: 3 });
    const [session] = await once(device, 'online');
    expect(session).toEqual({ clientId: cloud.sessions[0], lastSequence: 0 });
    expect(cloud.payloads('hello')).toEqual([
      {
        ...{ protocol: 'PROTO/3.1', uptime_s: expect.closeTo(0, -1) },
        ...{ firmware: '1.4.2', device_type: 'smart_light', manifest_version: 3 },
      },
    ]);
    expect(sequencesOf('hello')).toEqual([1]);
    expect(cloud.refused).toEqual([]);
  });

  it('uses a new session token for every connection', async () => {
    const device = await startOnline();
    for (let i = 2; i <= 4; i++) {
      const offline = once(device, 'offline');
      cloud.cut();
      await offline;
      expect(device.online).toBe(false);
      await until(() => expect(device.online).toBe(true));
      expect(new Set(cloud.sessions).size).toBe(i);
    }
    expect(cloud.refusedSignIns).toBe(0);
  });

  it('retries while the service is unavailable', async () => {
    await cloud.stop();
    const device = await start();
    const [reason] = await once(device, 'offline');
    expect(reason).toContain('ECONNREFUSED');
    await once(device, 'offline');
    await cloud.listen();
    await until(() => expect(device.online).toBe(true));
  });

  it('waits a random part of a delay that doubles up to its limit', async () => {
    await cloud.stop();
    const waits: number[] = [];
    const device = await start({ backoff: { minMs: 4, maxMs: 20, random: () => 0.5 } });
    device.on('offline', (_reason, retryInMs) => waits.push(retryInMs));
    await until(() => expect(waits.length).toBeGreaterThanOrEqual(5));
    expect(waits.slice(0, 5)).toEqual([2, 4, 8, 10, 10]);
    await cloud.listen();
  });

  it('reports the reason when the key is wrong, and signs in with the right one', async () => {
    const device = await start({ secret: newDeviceSecret() });
    const [reason] = await once(device, 'offline');
    expect(reason).toContain('Not authorized');
    device.rekey(cloud.secret, 1);
    await until(() => expect(device.online).toBe(true));
  });

  it('signs in again with a rotated key', async () => {
    const device = await startOnline();
    cloud.secret = newDeviceSecret();
    cloud.keyVersion = 2;
    device.rekey(cloud.secret, 2);
    expect(device.online).toBe(false);
    await until(() => expect(device.online).toBe(true));
    expect(await device.report({ on: true })).toBe(true);
    expect(cloud.refused).toEqual([]);
  });

  it('reconnects when its cmd subscription is refused', async () => {
    cloud.grantsSubscription = false;
    const device = await start();
    const [reason] = await once(device, 'offline');
    expect(reason).toMatch(/subscription/i);
    cloud.grantsSubscription = true;
    await until(() => expect(device.online).toBe(true));
  });

  it('sends only hello until it was answered', async () => {
    cloud.answersHello = false;
    const device = await start({ state: { on: true } });
    await until(() => expect(cloud.payloads('hello')).toHaveLength(1));
    void device.report({ on: false });
    await cloud.command('anything');
    await until(() => expect(device.waiting).toBe(3));
    expect(cloud.received.map((message) => message.channel)).toEqual(['hello']);
    cloud.send('hello_ack', cloud.helloAck());
    await until(() => expect(device.waiting).toBe(0));
    expect(cloud.payloads('state')).toEqual([{ state: { on: true }, full: true }, { state: { on: false } }]);
  });

  it('reconnects when the connection or hello is not answered', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const mqttUrl = `mqtt://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const unanswered = await start({ mqttUrl, patienceMs: 20 });
    expect((await once(unanswered, 'offline'))[0]).toBe('connack timeout');
    await unanswered.close();
    silent.close();

    cloud.answersHello = false;
    const device = await start({ patienceMs: 300 });
    const reasons: string[] = [];
    device.on('offline', (reason) => reasons.push(reason));
    await until(() => expect(reasons).toContain('no answer to hello'));
    cloud.answersHello = true;
    await until(() => expect(device.online).toBe(true));
  });

  it('signs in again on reconnect()', async () => {
    const device = await startOnline();
    device.reconnect('another network');
    expect(device.online).toBe(false);
    await until(() => expect(device.online).toBe(true));
    expect(cloud.sessions).toHaveLength(2);
    expect(device.deviceId).toBe(cloud.deviceId);
  });

  it("uses the service's clock", async () => {
    const skew = 250_000;
    cloud.serverTime = () => Date.now() + skew;
    const device = await startOnline();
    cloud.serverTime = () => Date.now() + skew + 200_000;
    expect(await device.report({ on: true })).toBe(true);
    expect(cloud.refused).toEqual([]);
    expect(cloud.received.at(-1)?.fields.timestamp).toBeGreaterThan(Date.now() + skew - 10_000);
  });
});
