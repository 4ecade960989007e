import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Device } from '../edges/mqtt/client.ts';
import { eventually } from '../support/clock.ts';
import { register, waitForCommand } from '../support/device.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import { startService, type TestService } from '../support/service.ts';

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
const speakers: Device[] = [];

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
});
afterAll(async () => {
  for (const { mqtt } of speakers) mqtt.end(true);
  await at.stop();
});

async function speaker(registered?: Record<string, unknown>) {
  const known = registered ?? (await register(owner));
  const device = await connectRawDevice(at, known);
  speakers.push(device);
  return { device, registered: known, id: known.device_id as string };
}

const shown = async (id: string) => (await owner.get(`/v1/devices/${id}`)).body.device;

const errors = (device: Device) =>
  device.received.flatMap((notified) =>
    notified.type === 'error' ? [[notified.payload.code, notified.payload.message_id]] : [],
  );

describe('a repeated message', () => {
  it('identical, signed again, or in a later session counts once and is acknowledged each time', async () => {
    const { device, registered, id } = await speaker();
    const messageId = randomUUID();
    const payload = { state: { n: 1 } };
    const bytes = device.compose('state', payload, { sequence: 1, messageId });
    for (let n = 0; n < 3; n += 1) await device.mqtt.publishAsync(device.topic('state'), bytes, { qos: 1 });
    await device.send('state', payload, { sequence: 1, messageId });
    device.mqtt.end(true);
    const { device: later } = await speaker(registered);
    await later.send('state', payload, { sequence: 1, messageId });
    await later.send('state', { state: { n: 2 } }, { sequence: 2 });
    expect(await shown(id)).toMatchObject({ state: { n: 2 }, state_version: 2 });
    expect(errors(device).concat(errors(later))).toEqual([]);
  });

  it('with a used number, below the window, or of another session is refused with an error message', async () => {
    const { device, registered, id } = await speaker();
    const captured = device.compose('state', { state: { captured: true } }, { sequence: 99 });
    for (const sequence of [1, 70]) await device.send('state', { state: { sequence } }, { sequence });
    const [reused, old] = [randomUUID(), randomUUID()];
    await device.send('state', { state: { x: 1 } }, { sequence: 70, messageId: reused });
    await device.send('state', { state: { x: 2 } }, { sequence: 6, messageId: old });
    await eventually(() => errors(device).length === 2);
    expect(errors(device)).toEqual([
      ['SEQUENCE_REUSED', reused],
      ['SEQUENCE_TOO_OLD', old],
    ]);
    device.mqtt.end(true);
    const { device: later } = await speaker(registered);
    await later.mqtt.publishAsync(later.topic('state'), captured, { qos: 1 });
    await eventually(() => errors(later).some(([code]) => code === 'SESSION_MISMATCH'));
    expect(await shown(id)).toMatchObject({ state: { sequence: 70 }, state_version: 2 });
  });

  it("of another device, through that device's session, is refused without an error message", async () => {
    const { device: victim, id } = await speaker();
    const { device: thief, id: thiefId } = await speaker();
    const stolen = victim.compose('state', { state: { stolen: true } });
    await thief.mqtt.publishAsync(thief.topic('state'), stolen, { qos: 1 });
    await thief.send('state', { state: { mine: true } });
    expect((await shown(id)).state).toEqual({});
    expect((await shown(thiefId)).state).toEqual({ mine: true });
    expect(errors(thief)).toEqual([]);
  });
});

describe('a protocol violation', () => {
  it.each([
    [
      'publish on another device’s topic',
      async (device: Device, other: Device) => void device.mqtt.publish(other.topic('state'), '{}', { qos: 1 }),
    ],
    [
      'publish on its own cmd',
      async (device: Device) => void device.mqtt.publish(device.topic('cmd'), '{}', { qos: 1 }),
    ],
    ['publish under $SYS', async (device: Device) => void device.mqtt.publish('$SYS/x', '{}', { qos: 1 })],
    [
      'retain',
      async (device: Device) =>
        void device.mqtt.publish(device.topic('state'), device.compose('state', { state: { kept: 1 } }), {
          qos: 1,
          retain: true,
        }),
    ],
    [
      'publish in QoS 2',
      async (device: Device) =>
        void device.mqtt.publish(device.topic('state'), device.compose('state', { state: { kept: 1 } }), { qos: 2 }),
    ],
  ])('%s: its connection is closed', async (_what, act) => {
    const { device, id } = await speaker();
    const { device: other } = await speaker();
    let acknowledged = false;
    device.mqtt.on('packetreceive', ({ cmd }) => {
      acknowledged ||= cmd === 'puback' || cmd === 'pubrec';
    });
    await act(device, other);
    await device.closed();
    expect(acknowledged).toBe(false);
    expect((await shown(id)).state).toEqual({});
    expect(other.mqtt.connected).toBe(true);
  });

  it('subscribing to another topic than its own cmd is refused, without other effects', async () => {
    const { device } = await speaker();
    const { device: other } = await speaker();
    for (const filter of [
      '#',
      '+/+/+/+/+',
      other.topic('cmd'),
      device.topic('state'),
      `${device.topic('cmd')}/#`,
      '$SYS/#',
    ]) {
      const granted = await device.mqtt.subscribeAsync(filter, { qos: 1 }).catch((error) => error);
      expect(JSON.stringify(granted.message ?? granted)).toMatch(/128|Unspecified error/);
    }
    await device.send('state', { state: { still: 'here' } });
  });

  it('a state above 32 KiB is refused however it grows, and the previous state remains', async () => {
    const { device, id } = await speaker();
    const text = 'x'.repeat(15_000);
    for (const name of ['a', 'b', 'c']) await device.send('state', { state: { [name]: text } });
    await eventually(() => errors(device).length === 1);
    expect(errors(device)[0]?.[0]).toBe('STATE_TOO_LARGE');
    expect(Object.keys((await shown(id)).state)).toEqual(['a', 'b']);
  });

  it('twenty refused messages in a minute end the session', async () => {
    const { device } = await speaker();
    for (let n = 0; n < 20; n += 1) device.mqtt.publish(device.topic('state'), '{', { qos: 1 });
    await device.closed();
  });
});

describe('an acknowledgement of a command', () => {
  async function commanded(more: object = {}) {
    const { device, id, registered } = await speaker();
    const path = `/v1/device/${id}/command`;
    const { body } = await owner.post(path, { action: 'set_brightness', params: { level: 5 }, ...more });
    await eventually(() => device.received.some(({ type }) => type === 'cmd'));
    return { device, id, registered, commandId: body.command_id as string };
  }

  it('counts once however often it is sent, and later ones change nothing', async () => {
    const { device, commandId } = await commanded();
    const word = { command_id: commandId, status: 'succeeded', result: 'first' };
    await device.send('cmd_ack', word);
    const done = await waitForCommand(owner, commandId, ({ status }) => status === 'succeeded');
    await device.send('cmd_ack', word);
    await device.send('cmd_ack', { command_id: commandId, status: 'failed', error: 'second thoughts' });
    await device.send('cmd_ack', { command_id: commandId, status: 'accepted' });
    const after = (await owner.get(`/v1/commands/${commandId}`)).body.command;
    expect([after.status, after.result]).toEqual(['succeeded', 'first']);
    expect(after.timeline.map(({ status }: { status: string }) => status)).toEqual(
      done.timeline.map(({ status }: { status: string }) => status),
    );
    expect(errors(device)).toEqual([]);
  });

  it('that is late still counts for a day, and is marked', async () => {
    const { device, commandId } = await commanded({ timeout_s: 1 });
    await waitForCommand(owner, commandId, ({ status }) => status === 'timed_out');
    await device.send('cmd_ack', { command_id: commandId, status: 'failed', error: 'jammed' });
    expect(await waitForCommand(owner, commandId, ({ status }) => status === 'failed')).toMatchObject({
      late: true,
      error: 'jammed',
    });
  });

  it("of another device's, an unknown or a malformed command is refused with an error message", async () => {
    const { device: victim, commandId } = await commanded();
    const { device } = await speaker();
    for (const command_id of [commandId, randomUUID(), 'none']) {
      await device.send('cmd_ack', { command_id, status: 'succeeded' });
    }
    await eventually(() => errors(device).length === 3);
    expect(errors(device).map(([code]) => code)).toEqual(['UNKNOWN_COMMAND', 'UNKNOWN_COMMAND', 'UNKNOWN_COMMAND']);
    expect((await owner.get(`/v1/commands/${commandId}`)).body.command.status).toBe('dispatched');
    await victim.send('cmd_ack', { command_id: commandId, status: 'succeeded' });
    await waitForCommand(owner, commandId, ({ status }) => status === 'succeeded');
  });
});
