import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { connectDevice, type Device, type DeviceOptions } from '../../src/device/device.ts';
import { memoryStore } from '../../src/device/store.ts';
import { newDeviceSecret, signingKey } from '../../src/protocol/signature.ts';
import { SmallCloud } from './fake-cloud.ts';

let cloud: SmallCloud;
let devices: Device[] = [];

beforeEach(async () => {
  cloud = await SmallCloud.start();
});
afterEach(async () => {
  await Promise.all(devices.map((device) => device.close(0)));
  devices = [];
  await cloud.stop();
});

async function start(options: Partial<DeviceOptions> = {}): Promise<Device> {
  const backoff = { minMs: 5, maxMs: 20 };
  const device = await connectDevice({ ...cloud.registration(), backoff, ...options });
  devices.push(device);
  return device;
}

async function startOnline(options: Partial<DeviceOptions> = {}): Promise<Device> {
  const device = await start(options);
  await until(() => expect(device.online).toBe(true));
  return device;
}

const until = (assertion: () => void) => vi.waitFor(assertion, { timeout: inject('pollMs'), interval: 5 });
const sequencesOf = (channel: string) =>
  cloud.heard.filter((message) => message.channel === channel).map((message) => message.fields.sequence_number);

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
    expect(cloud.heard.map((message) => message.channel)).toEqual(['hello']);
    cloud.say('hello_ack', cloud.helloAck());
    await until(() => expect(device.waiting).toBe(0));
    expect(cloud.payloads('state')).toEqual([{ state: { on: true }, full: true }, { state: { on: false } }]);
  });

  it('reconnects when the connection or hello is not answered', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const mqttUrl = `mqtt://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const unheard = await start({ mqttUrl, patienceMs: 20 });
    expect((await once(unheard, 'offline'))[0]).toBe('connack timeout');
    await unheard.close();
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
    expect(cloud.heard.at(-1)?.fields.timestamp).toBeGreaterThan(Date.now() + skew - 10_000);
  });
});

describe('reporting', () => {
  it('numbers its messages from the initial sequence, each once', async () => {
    const device = await startOnline({ initialSequence: 7 });
    expect(await Promise.all([1, 2, 3].map((n) => device.report({ n })))).toEqual([true, true, true]);
    expect(sequencesOf('state')).toEqual([7, 8, 9]);
    expect(cloud.payloads('state')).toEqual([{ state: { n: 1 } }, { state: { n: 2 } }, { state: { n: 3 } }]);
  });

  it('continues after the highest number the service has accepted', async () => {
    cloud.lastSequence = 500;
    const device = await startOnline();
    await device.report({ on: true });
    expect(sequencesOf('state')).toEqual([501]);
  });

  it('keeps the merged state of its reports', async () => {
    const device = await startOnline({ state: { on: false, color: { hue: 1, saturation: 2 } } });
    const states: unknown[] = [];
    device.on('state', (state) => states.push(state));
    await device.report({ on: true, color: { saturation: null } });
    expect(device.state).toEqual({ on: true, color: { hue: 1 } });
    await device.report({ on: true });
    await device.reportWhole({ on: false });
    expect(states).toEqual([{ on: true, color: { hue: 1 } }, { on: false }]);
    expect(cloud.payloads('state')[0]).toEqual({ state: { on: false, color: { hue: 1, saturation: 2 } }, full: true });
    expect(cloud.payloads('state').at(-1)).toEqual({ state: { on: false }, full: true });
  });

  it('does not change the reported object, which its caller may keep using', async () => {
    const device = await startOnline();
    const states: unknown[] = [];
    device.on('state', (state) => states.push(structuredClone(state)));
    const own = { on: false, color: { hue: 1 }, list: [1] };
    for (const report of [() => device.report(own), () => device.reportWhole(own)]) {
      own.on = true;
      own.color.hue += 1;
      own.list.push(2);
      const before = structuredClone(own);
      await report();
      own.on = false;
      own.color.hue = 0;
      expect(device.state).toEqual(before);
      expect(states.at(-1)).toEqual(before);
    }
    expect(states).toHaveLength(2);
  });

  it('sends what was reported, even if its caller changes the object before that', async () => {
    await cloud.stop();
    const initial = { color: { hue: 0 } };
    const device = await start({ state: initial });
    initial.color.hue = 7;
    const own = { color: { hue: 1 } };
    const reported = [device.report(own)];
    own.color.hue = 2;
    reported.push(device.report(own));
    own.color.hue = Number.NaN;
    await cloud.listen();
    expect(await Promise.all(reported)).toEqual([true, true]);
    expect(cloud.payloads('state').map(({ state }) => (state as typeof own).color.hue)).toEqual([0, 1, 2]);
    expect(device.state).toEqual({ color: { hue: 2 } });
  });

  it('rejects a state that the service would refuse', async () => {
    const device = await startOnline();
    expect(() => device.report({ text: 'x'.repeat(33_000) })).toThrow(RangeError);
    expect(device.state).toEqual({});
    expect(await device.report({ text: 'short' })).toBe(true);
  });

  it.each([
    ['no number', { celsius: Number.NaN }],
    ['half a character', { text: 'a\ud83d' }],
    ['more than a packet may hold, though it changes nothing', { ['x'.repeat(70_000)]: null }],
  ])('rejects a report that does not fit in a message, and continues: %s', async (_what, patch) => {
    const device = await startOnline();
    for (const report of [() => device.report(patch), () => device.reportWhole({ patch })]) {
      expect(report).toThrow(RangeError);
    }
    expect(device.state).toEqual({});
    expect(device.waiting).toBe(0);
    expect(await device.report({ on: true })).toBe(true);
    cloud.cut();
    expect(await device.report({ on: false })).toBe(true);
    expect(cloud.payloads('state')).toEqual([{ state: { on: true } }, { state: { on: false } }]);
  });

  it('resends unacknowledged messages with the same number and id, signed for the new session', async () => {
    cloud.acknowledges = false;
    const device = await startOnline();
    const reported = [device.report({ n: 1 }), device.report({ n: 2 })];
    await until(() => expect(cloud.payloads('state')).toHaveLength(2));
    cloud.acknowledges = true;
    cloud.cut();
    expect(await Promise.all(reported)).toEqual([true, true]);
    const states = cloud.heard.filter((message) => message.channel === 'state');
    expect(states.map(({ payload }) => payload)).toEqual([1, 2, 1, 2].map((n) => ({ state: { n } })));
    for (const i of [0, 1]) {
      const [before, after] = [states[i]?.sent, states[i + 2]?.sent];
      expect(after?.sequence_number).toBe(before?.sequence_number);
      expect(after?.message_id).toBe(before?.message_id);
      expect(after?.client_id).not.toBe(before?.client_id);
      expect(after?.nonce).not.toBe(before?.nonce);
    }
    expect(cloud.refused).toEqual([]);
    await device.report({ n: 3 });
    expect(sequencesOf('state').at(-1)).toBe(3);
  });

  it('queues reports in order while offline', async () => {
    await cloud.stop();
    const device = await start();
    const reported = [1, 2, 3].map((n) => device.report({ n }));
    await once(device, 'offline');
    await cloud.listen();
    expect(await Promise.all(reported)).toEqual([true, true, true]);
    expect(cloud.payloads('state')).toEqual([1, 2, 3].map((n) => ({ state: { n } })));
  });

  it('has at most 16 messages in flight', async () => {
    cloud.acknowledges = false;
    const device = await startOnline();
    for (let n = 0; n < 40; n++) void device.report({ n });
    await until(() => expect(cloud.payloads('state')).toHaveLength(16));
    cloud.command('nothing');
    await until(() => expect(device.waiting).toBe(41));
    expect(cloud.payloads('state')).toHaveLength(16);
    cloud.acknowledges = true;
    cloud.cut();
    await until(() => expect(device.waiting).toBe(0));
    expect(cloud.lastSequence).toBe(41);
  });

  it('merges the reports that do not fit in the queue into one of the full state', async () => {
    await cloud.stop();
    const device = await start({ queueLimit: 32 });
    const reported = Array.from({ length: 100 }, (_, n) => device.report({ [`p${n}`]: n }));
    expect(device.waiting).toBeLessThanOrEqual(32);
    await cloud.listen();
    expect(await Promise.all(reported)).toEqual(reported.map(() => true));
    let twin: object = {};
    for (const { state, full } of cloud.payloads('state'))
      twin = full ? (state as object) : { ...twin, ...(state as object) };
    expect(twin).toEqual(device.state);
    expect(Object.keys(twin)).toHaveLength(100);
  });

  it('emits refusals of the service', async () => {
    const device = await startOnline();
    const refused = once(device, 'refused');
    cloud.say('error', { code: 'STATE_TOO_LARGE', message_id: 'm' });
    expect(await refused).toEqual([{ code: 'STATE_TOO_LARGE', message_id: 'm' }]);
  });

  it('sends heartbeats at the interval the service sets, with QoS 0 and their own sequence numbers', async () => {
    cloud.heartbeatS = 0.03;
    const device = await startOnline({ heartbeat: () => ({ battery: 87, rssi: -61 }) });
    await until(() => expect(cloud.payloads('heartbeat').length).toBeGreaterThanOrEqual(2));
    expect(cloud.payloads('heartbeat')[0]).toEqual({ uptime_s: expect.closeTo(0, -1), battery: 87, rssi: -61 });
    expect(sequencesOf('heartbeat').slice(0, 2)).toEqual([1, 2]);
    expect(device.waiting).toBe(0);
  });

  it('sends a heartbeat without fields that cannot be encoded, and emits a fault', async () => {
    cloud.heartbeatS = 0.03;
    const faults: unknown[] = [];
    let beats = 0;
    const device = await start({
      heartbeat: () => {
        beats += 1;
        if (beats === 2) throw new Error('no radio');
        return beats === 1 ? { rssi: Number.NaN } : { rssi: -61 };
      },
    });
    device.on('fault', (fault) => faults.push(fault));
    await until(() => expect(cloud.payloads('heartbeat').length).toBeGreaterThanOrEqual(3));
    expect(cloud.payloads('heartbeat').slice(0, 3)).toEqual([
      { uptime_s: 0 },
      { uptime_s: 0 },
      { uptime_s: 0, rssi: -61 },
    ]);
    expect(faults.map(String)).toEqual([expect.stringContaining('invalid payload'), 'Error: no radio']);
  });
});

describe('messages on cmd', () => {
  const suspects = (device: Device) => {
    const reasons: string[] = [];
    device.on('suspect', (reason) => reasons.push(reason));
    return reasons;
  };

  it('are ignored if they are not from the service, not for this session, too old or not JSON', async () => {
    const ran: string[] = [];
    const device = await startOnline({ commands: { turn_on: (_, { commandId }) => void ran.push(commandId) } });
    const reasons = suspects(device);
    const now = Date.now();
    const cmd = { command_id: 'c', action: 'turn_on', params: {}, issued_at: now, expires_at: now + 60_000 };
    cloud.say('cmd', cmd, { key: signingKey('hmac-sha256', newDeviceSecret()) });
    cloud.say('cmd', cmd, { clientId: `${cloud.sessions[0]}x` });
    cloud.say('cmd', cmd, { tenantId: cloud.deviceId });
    cloud.say('cmd', cmd, { deviceId: cloud.tenantId });
    cloud.say('cmd', cmd, { timestamp: now - 301_000 });
    cloud.sayText('{');
    cloud.say('cmd', { ...cmd, params: [] });
    cloud.say('cmd', cmd, { sequence: 1 });
    const real = cloud.command('turn_on');
    await until(() => expect(ran).toEqual([real]));
    expect(reasons.map((reason) => reason.split(':')[0])).toEqual([
      'SIGNATURE_INVALID',
      'SESSION_MISMATCH',
      'IDENTITY_MISMATCH',
      'IDENTITY_MISMATCH',
      'TIMESTAMP_SKEWED',
      'MALFORMED',
      'params is not valid',
      'replayed sequence number 1',
    ]);
  });

  it('are numbered from 1 in every session', async () => {
    const ran: string[] = [];
    const device = await startOnline({ commands: { turn_on: (_, { commandId }) => void ran.push(commandId) } });
    const reasons = suspects(device);
    const first = cloud.command('turn_on');
    await until(() => expect(ran).toEqual([first]));
    cloud.cut();
    await until(() => expect(cloud.sessions).toHaveLength(2));
    await until(() => expect(device.online).toBe(true));
    const second = cloud.command('turn_on');
    await until(() => expect(ran).toEqual([first, second]));
    expect(reasons).toEqual([]);
  });

  it('are verified with the public keys of the service by an Ed25519 device', async () => {
    const other = await SmallCloud.start('ed25519');
    try {
      const device = await start({ ...other.registration(), commands: { turn_on: () => ({ state: { on: true } }) } });
      await until(() => expect(device.online).toBe(true));
      const reasons = suspects(device);
      const now = Date.now();
      const cmd = { command_id: 'c', action: 'turn_on', params: {}, issued_at: now, expires_at: now + 60_000 };
      other.say('cmd', cmd, { key: signingKey('ed25519', other.secret) });
      const id = other.command('turn_on');
      await until(() => expect(other.acks(id).map(({ status }) => status)).toEqual(['accepted', 'succeeded']));
      expect(reasons).toEqual(['SIGNATURE_INVALID: wrong signature']);
      expect(other.refused).toEqual([]);
    } finally {
      await devices[0]?.close(0);
      await other.stop();
    }
  });
});

describe('commands', () => {
  it('are accepted, report progress, and are answered with result and state', async () => {
    const device = await startOnline({
      state: { brightness: 0 },
      commands: {
        set_brightness: async ({ level }, { progress, action }) => {
          progress(50, { brightness: 20 });
          await Promise.resolve();
          return { result: { action }, state: { brightness: level ?? null } };
        },
      },
    });
    const id = cloud.command('set_brightness', { level: 40 });
    await until(() => expect(cloud.acks(id)).toHaveLength(3));
    expect(cloud.acks(id)).toEqual([
      { command_id: id, status: 'accepted' },
      { command_id: id, status: 'in_progress', progress: 50, state: { brightness: 20 } },
      { command_id: id, status: 'succeeded', result: { action: 'set_brightness' }, state: { brightness: 40 } },
    ]);
    expect(device.state).toEqual({ brightness: 40 });
  });

  it('fail with the message of the error that the handler throws, or if the action is unknown', async () => {
    await startOnline({
      commands: {
        jam: () => {
          throw new Error('motor stalled');
        },
        odd: () => Promise.reject('just text'),
        long: () => Promise.reject(new Error('x'.repeat(2_000))),
        large: () => ({ state: { text: 'x'.repeat(33_000) } }),
        constructor: () => undefined,
      },
    });
    const errorOf = async (action: string) => {
      const id = cloud.command(action);
      await until(() => expect(cloud.acks(id).at(-1)?.status).toBe('failed'));
      return cloud.acks(id).at(-1)?.error;
    };
    expect(await errorOf('jam')).toBe('motor stalled');
    expect(await errorOf('odd')).toBe('just text');
    expect(await errorOf('long')).toHaveLength(500);
    expect(await errorOf('large')).toBe('the state is too large, or nested too deeply');
    expect(await errorOf('fly')).toBe('unknown action fly');
    expect(await errorOf('toString')).toBe('unknown action toString');
    const known = cloud.command('constructor');
    await until(() => expect(cloud.acks(known).at(-1)?.status).toBe('succeeded'));
  });

  it('fail if their outcome does not fit in a message or cannot be encoded', async () => {
    const device = await startOnline({
      commands: {
        dump: () => ({ result: 'x'.repeat(70_000) }),
        measure: () => ({ result: { celsius: Number.NaN } }),
        watch: (_params, { progress }) => progress(Number.POSITIVE_INFINITY) as undefined,
        cry: () => Promise.reject(new Error(`${'x'.repeat(499)}\u{1f631}`)),
        hiss: () => Promise.reject(new Error('a\0b')),
      },
    });
    const errorOf = async (action: string) => {
      const id = cloud.command(action);
      await until(() => expect(cloud.acks(id).at(-1)?.status).toBe('failed'));
      return cloud.acks(id).at(-1)?.error;
    };
    expect(await errorOf('dump')).toMatch(/^the payload is too large: 70\d{3} bytes, at most 61440$/);
    expect(await errorOf('measure')).toMatch(/^invalid payload/);
    expect(await errorOf('watch')).toMatch(/^invalid payload/);
    expect(await errorOf('cry')).toBe(`${'x'.repeat(499)}\ufffd`);
    expect(await errorOf('hiss')).toBe('a\ufffdb');
    await until(() => expect(device.waiting).toBe(0));
    cloud.cut();
    expect(await device.report({ on: true })).toBe(true);
  });

  it('are not started after they have expired', async () => {
    let ran = 0;
    await startOnline({ commands: { turn_on: () => void ran++ } });
    const id = cloud.command('turn_on', {}, { expires_at: Date.now() - 1_000 });
    await until(() => expect(cloud.acks(id)).toHaveLength(1));
    expect(cloud.acks(id)).toEqual([{ command_id: id, status: 'failed', error: 'the command has expired' }]);
    expect(ran).toBe(0);
  });

  it('run once: a repeat gets the former outcome, without its state', async () => {
    let ran = 0;
    await startOnline({ commands: { count: () => ({ result: ++ran, state: { ran } }) } });
    const id = cloud.command('count');
    await until(() => expect(cloud.acks(id)).toHaveLength(2));
    cloud.command('count', {}, { command_id: id, expires_at: 1 });
    await until(() => expect(cloud.acks(id)).toHaveLength(3));
    expect(cloud.acks(id).at(-1)).toEqual({ command_id: id, status: 'succeeded', result: 1 });
    expect(ran).toBe(1);
  });

  it('that are still running answer a repeat with their progress', async () => {
    let finish = () => {};
    await startOnline({
      commands: {
        wait: (_, { progress }) => {
          progress(10);
          return new Promise((resolve) => {
            finish = () => resolve({});
          });
        },
      },
    });
    const id = cloud.command('wait');
    await until(() => expect(cloud.acks(id)).toHaveLength(2));
    cloud.command('wait', {}, { command_id: id });
    await until(() =>
      expect(cloud.acks(id).map(({ status }) => status)).toEqual(['accepted', 'in_progress', 'in_progress']),
    );
    finish();
    await until(() => expect(cloud.acks(id).at(-1)?.status).toBe('succeeded'));
  });

  it('are remembered up to the last 32', async () => {
    let ran = 0;
    await startOnline({ commands: { count: () => ({ result: ++ran }) } });
    const ids = Array.from({ length: 33 }, () => cloud.command('count'));
    await until(() => expect(cloud.acks()).toHaveLength(66));
    cloud.command('count', {}, { command_id: ids[1] as string });
    await until(() => expect(cloud.acks(ids[1])).toHaveLength(3));
    expect(ran).toBe(33);
    cloud.command('count', {}, { command_id: ids[0] as string });
    await until(() => expect(ran).toBe(34));
  });

  it('are acknowledged even after a lost connection', async () => {
    cloud.acknowledges = false;
    let finish = () => {};
    const running = new Promise<undefined>((resolve) => {
      finish = () => resolve(undefined);
    });
    const commands = { wait: () => running };
    const device = await startOnline({ commands });
    const id = cloud.command('wait');
    await until(() => expect(cloud.acks(id)).toHaveLength(1));
    const offline = once(device, 'offline');
    cloud.cut();
    await offline;
    finish();
    cloud.acknowledges = true;
    await until(() => expect(cloud.acks(id).at(-1)?.status).toBe('succeeded'));
    expect(cloud.refused).toEqual([]);
  });
});

describe('the memory of a device', () => {
  it('restores state, numbers, commands and unacknowledged messages in the next run', async () => {
    const store = memoryStore();
    const commands = { count: () => ({ result: 1, state: { counted: true } }) };
    const first = await startOnline({ store, commands });
    const id = cloud.command('count');
    await until(() => expect(first.waiting).toBe(0));
    await until(() => expect(cloud.acks(id)).toHaveLength(2));
    cloud.acknowledges = false;
    const lost = first.report({ n: 1 });
    await until(() => expect(cloud.payloads('state')).toHaveLength(1));
    await first.close(0);
    expect(await lost).toBe(false);

    cloud.acknowledges = true;
    const second = await startOnline({ store, commands });
    expect(second.state).toEqual({ counted: true, n: 1 });
    await until(() => expect(cloud.payloads('state')).toHaveLength(2));
    const [before, after] = cloud.heard.filter((message) => message.channel === 'state');
    expect(after?.fields.message_id).toBe(before?.fields.message_id);
    expect(after?.fields.sequence_number).toBe(before?.fields.sequence_number);
    cloud.command('count', {}, { command_id: id });
    await until(() => expect(cloud.acks(id).at(-1)).toEqual({ command_id: id, status: 'succeeded', result: 1 }));
    expect(cloud.acks(id)).toHaveLength(3);
    expect(cloud.refused).toEqual([]);
  });

  it('answers for a command that a restart interrupted', async () => {
    const store = memoryStore();
    let aborted = false;
    const commands = {
      wait: (_: object, { signal }: { signal: AbortSignal }) =>
        new Promise<undefined>(() => {
          signal.addEventListener('abort', () => {
            aborted = true;
          });
        }),
    };
    const first = await startOnline({ store, commands });
    const id = cloud.command('wait');
    await until(() => expect(cloud.acks(id)).toHaveLength(1));
    await first.close();
    expect(aborted).toBe(true);
    await startOnline({ store, commands });
    cloud.command('wait', {}, { command_id: id });
    await until(() => expect(cloud.acks(id).at(-1)?.status).toBe('failed'));
    expect(cloud.acks(id).at(-1)?.error).toBe('the device restarted while running this command');
  });

  it('is stored before a handler starts', async () => {
    const store = memoryStore();
    let seen: unknown;
    const look = async () => {
      seen = await store.load();
      return {};
    };
    const commands = { look };
    await startOnline({ store, commands });
    const id = cloud.command('look');
    await until(() => expect(seen).toMatchObject({ commands: [{ commandId: id, status: 'accepted' }] }));
  });

  it('that cannot be stored emits a fault, and the device continues', async () => {
    const store = { load: async () => null, save: () => Promise.reject(new Error('disk full')) };
    const device = await start({ store });
    const faults: unknown[] = [];
    device.on('fault', (error) => faults.push(error));
    expect(await device.report({ on: true })).toBe(true);
    expect(faults[0]).toEqual(new Error('disk full'));
  });
});

describe('closing', () => {
  it('sends queued messages, disconnects, and resolves later reports', async () => {
    const device = await startOnline();
    const reported = device.report({ on: true });
    const closed = once(device, 'closed');
    await device.close();
    await closed;
    expect(await reported).toBe(true);
    expect(device.online).toBe(false);
    expect(await device.report({ on: false })).toBe(false);
    await device.close();
    device.open();
    expect(cloud.sessions).toHaveLength(1);
  });

  it('does not wait for messages that cannot be sent', async () => {
    await cloud.stop();
    const device = await start();
    const reported = device.report({ on: true });
    await device.close(60_000);
    expect(await reported).toBe(false);
    await cloud.listen();
  });

  it('starts no further command', async () => {
    cloud.acknowledges = false;
    let ran = 0;
    const device = await startOnline({ commands: { turn_on: () => void ran++ } });
    void device.report({ on: true });
    const closed = device.close(200);
    cloud.command('turn_on');
    await closed;
    expect(ran).toBe(0);
  });
});
