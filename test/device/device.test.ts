import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { cloud, start, startOnline, until, withSmallCloud } from './device-fixture.ts';

withSmallCloud();

const sequencesOf = (channel: string) =>
  cloud.received.filter((message) => message.channel === channel).map((message) => message.fields.sequence_number);

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
    const states = cloud.received.filter((message) => message.channel === 'state');
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
    cloud.send('error', { code: 'STATE_TOO_LARGE', message_id: 'm' });
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
