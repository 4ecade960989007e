// The device library against the service's MQTT edge and a model of the rest of the service.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { connectDevice, type Device, type DeviceOptions } from '../../src/device/device.ts';
import type { DeviceEvent } from '../../src/machines/device-types.ts';
import { EdgeHarness, type OpenMqttEdge, type TestDevice } from '../edges/mqtt/edge-harness.ts';

let service: EdgeHarness;
let edge: OpenMqttEdge;
let row: TestDevice;
let devices: Device[] = [];

beforeEach(async () => {
  service = new EdgeHarness();
  row = service.addDevice();
  edge = await service.open({ limits: { closeJitterMs: 1 } });
});
afterEach(async () => {
  await Promise.all(devices.map((device) => device.close(0)));
  devices = [];
  await edge.close();
});

async function start(options: Partial<DeviceOptions> = {}, of = row): Promise<Device> {
  const device = await connectDevice({
    mqttUrl: `mqtt://127.0.0.1:${edge.port}`,
    tenantId: of.tenantId,
    deviceId: of.deviceId,
    secret: of.secret,
    signingAlg: of.alg,
    keyVersion: of.keyVersion,
    cloudPublicKeys: [service.cloudPublicKey],
    clock: service.clock,
    backoff: { minMs: 5, maxMs: 20 },
    ...options,
  });
  devices.push(device);
  return device;
}

async function startOnline(options: Partial<DeviceOptions> = {}, of = row): Promise<Device> {
  const device = await start(options, of);
  await until(() => expect(device.online).toBe(true));
  return device;
}

const until = (assertion: () => void) => vi.waitFor(assertion, { timeout: inject('pollMs'), interval: 5 });
const reported = () => service.events('state.reported') as Extract<DeviceEvent, { type: 'state.reported' }>[];
const acks = () => service.events('ack.reported') as Extract<DeviceEvent, { type: 'ack.reported' }>[];

function command(action: string, of = row): string {
  const commandId = randomUUID();
  service.commands.set(commandId, { deviceId: of.deviceId });
  service.emit({
    type: 'command.write',
    tenantId: of.tenantId,
    deviceId: of.deviceId,
    commandId,
    sessionId: service.live.get(of.deviceId)?.sessionId ?? '',
    critical: false,
    message: {
      messageId: randomUUID(),
      requestId: randomUUID(),
      action,
      params: { level: 40 },
      issuedAt: service.now,
      expiresAt: service.now + 60_000,
    },
  });
  return commandId;
}

describe('at the edge of the service, a device', () => {
  it.each(['hmac-sha256', 'ed25519'] as const)(
    'signs in, reports, runs commands and acknowledges them with %s',
    async (alg) => {
      const own = service.addDevice(undefined, alg);
      const device = await startOnline(
        {
          state: { brightness: 0 },
          commands: {
            set_brightness: ({ level }, { progress }) => {
              progress(50);
              return { result: 'ok', state: { brightness: level ?? null } };
            },
          },
        },
        own,
      );
      expect(await device.report({ on: true })).toBe(true);
      expect(reported().map(({ state, full }) => ({ state, full }))).toEqual([
        { state: { brightness: 0 }, full: true },
        { state: { on: true }, full: false },
      ]);
      const id = command('set_brightness', own);
      await until(() => expect(acks()).toHaveLength(3));
      expect(acks()).toMatchObject([
        { commandId: id, known: true, ack: { status: 'accepted' } },
        { commandId: id, known: true, ack: { status: 'in_progress', progress: 50 } },
        { commandId: id, known: true, ack: { status: 'succeeded', result: 'ok' }, state: { brightness: 40 } },
      ]);
      expect(service.refusals).toBe(0);
    },
  );

  it('resends a message that was not committed, which is then accepted once', async () => {
    const device = await startOnline();
    let failures = 3;
    service.commit = async ({ event }) => {
      if (event.type === 'state.reported' && failures-- > 0) throw new Error('the store is away');
    };
    const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => device.report({ n })));
    expect(answers.every(Boolean)).toBe(true);
    service.commit = async () => {};
    expect(service.row(row.deviceId).window.highest).toBe(40);
    expect(service.refusals).toBe(0);
    expect(service.counted['sign-in device']).toBeGreaterThan(1);
  });

  it('is notified of a refused message', async () => {
    const device = await startOnline({ commands: { turn_on: () => undefined } });
    const refused = once(device, 'refused');
    const id = command('turn_on');
    service.commands.set(id, { deviceId: randomUUID() });
    expect(await refused).toMatchObject([{ code: 'UNKNOWN_COMMAND' }]);
  });

  it('recovers its sequence number after losing its counter', async () => {
    const first = await startOnline();
    for (let n = 0; n < 5; n++) await first.report({ n });
    await first.close();
    const second = await startOnline();
    expect(await second.report({ n: 5 })).toBe(true);
    expect(service.row(row.deviceId).window.highest).toBe(6);
    expect(service.refusals).toBe(0);
  });

  it('continues after a rotation: with the old key during the grace period, with the new key after it', async () => {
    const device = await startOnline();
    const rotated = service.rotate(row.deviceId, service.now + 86_400_000);
    device.reconnect('still the old key');
    await until(() => expect(device.online).toBe(true));
    expect(await device.report({ n: 1 })).toBe(true);
    device.rekey(rotated.secret, rotated.keyVersion);
    await until(() => expect(device.online).toBe(true));
    expect(await device.report({ n: 2 })).toBe(true);
    expect(service.refusals).toBe(0);
  });

  it('is disconnected without a reason when it is revoked', async () => {
    const device = await startOnline();
    const reasons: string[] = [];
    device.on('offline', (reason) => reasons.push(reason));
    service.revoke(row.deviceId);
    await until(() => expect(reasons.length).toBeGreaterThan(1));
    expect(reasons[1]).toContain('Not authorized');
    expect(device.online).toBe(false);
  });

  it('reconnects after another process took over its session', async () => {
    const first = await startOnline();
    const offline = once(first, 'offline');
    const second = await startOnline();
    await offline;
    await second.close();
    await until(() => expect(first.online).toBe(true));
    expect(await first.report({ on: true })).toBe(true);
  });
});

describe('over other transports', () => {
  const file = (name: string) => readFileSync(new URL(`../support/tls/${name}`, import.meta.url));

  it('it uses TLS, and only with a trusted certificate', async () => {
    const tls = { port: 0, cert: file('localhost.crt'), key: file('localhost.key') };
    const deviceRate = { perSecond: 1_000, burst: 1_000 };
    const secure = await service.open({
      settings: { host: '127.0.0.1', port: 0, tls, maxConnections: 10, deviceRate },
    });
    try {
      const mqttUrl = `mqtts://localhost:${secure.tlsPort}`;
      const distrusting = await start({ mqttUrl });
      expect((await once(distrusting, 'offline'))[0]).toMatch(/self[- ]signed|unable to verify/);
      await distrusting.close();
      const device = await startOnline({ mqttUrl, tls: { ca: tls.cert } });
      expect(await device.report({ on: true })).toBe(true);
      await device.close();
    } finally {
      await secure.close();
    }
  });

  it('it uses MQTT over WebSocket', async () => {
    const http = createServer().on('upgrade', (request, socket, head) => edge.upgrade(request, socket, head));
    http.listen(0, '127.0.0.1');
    await once(http, 'listening');
    const device = await startOnline({ mqttUrl: `ws://127.0.0.1:${(http.address() as AddressInfo).port}/mqtt` });
    expect(await device.report({ on: true })).toBe(true);
    await device.close();
    http.closeAllConnections();
    http.close();
  });
});
