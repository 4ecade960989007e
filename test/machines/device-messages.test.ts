import { describe, expect, it } from 'vitest';
import { MAX_STATE_BYTES } from '../../src/domain/twin.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import type { DeviceEvent, VerificationWatch } from '../../src/machines/device-types.ts';
import { ack, COMMAND, DEVICE, header, ofType, online, registered, report, T0, TENANT, typesOf } from './samples.ts';

const accepted = { type: 'message.accepted', repeat: false };
const presence = (isOnline: boolean, at: number) => ({
  type: 'device.presence',
  tenantId: TENANT,
  deviceId: DEVICE,
  online: isOnline,
  at,
});
const heartbeat = (sequence: number, messageId?: string): DeviceEvent => ({
  type: 'heartbeat.received',
  at: T0 + 1_000,
  header: header(sequence, messageId),
});
const hello = (firmware?: string): DeviceEvent => ({
  type: 'hello.received',
  at: T0 + 1_000,
  header: { keyVersion: 1 },
  ...(firmware !== undefined && { firmware }),
});

describe('a message without a sequence number', () => {
  const unnumbered = (messageId: string): DeviceEvent => ({
    ...(heartbeat(1) as DeviceEvent & { type: 'heartbeat.received' }),
    header: { ...header(1, messageId), sequenceNumber: null },
  });

  it('gets the number after the highest one, and is not recognised as repeated', () => {
    const driven = registered();
    driven.send(unnumbered('a'));
    expect(driven.send(unnumbered('a')).outputs).toContainEqual(accepted);
    expect(driven.send(heartbeat(2, 'b')).outputs).toContainEqual({ type: 'message.refused', code: 'SEQUENCE_REUSED' });
    expect(driven.send(heartbeat(9, 'c')).outputs).toContainEqual(accepted);
    driven.send(unnumbered('d'));
    expect(driven.send(hello()).outputs[0]).toMatchObject({ type: 'hello.accepted', lastSequence: 10 });
  });

  it('is refused after the highest number that there is', () => {
    const driven = registered();
    driven.send(heartbeat(Number.MAX_SAFE_INTEGER));
    expect(driven.send(unnumbered('a')).outputs).toContainEqual({ type: 'message.refused', code: 'SEQUENCE_REUSED' });
  });
});

describe('a hello of a device with an update to verify', () => {
  const watch = (expected: JsonObject, seen = false): VerificationWatch => ({ commandId: COMMAND, expected, seen });
  const observedBy = (event: DeviceEvent, watches: VerificationWatch[]) =>
    ofType(registered().send({ ...event, watches } as DeviceEvent).outputs, 'actor.tell').map(({ event }) => event);
  const update = { firmware: '1.5.0' };

  it.each([
    ['1.5.0', true],
    ['v1.5', true],
    ['1.4.2', false],
    ['nightly', false],
  ])('reports the version %s to the command', (firmware, matches) => {
    expect(observedBy(hello(firmware), [watch(update)])).toEqual([
      { type: 'state.observed', deviceId: DEVICE, observed: { firmware }, matches },
    ]);
  });

  it('reports another version once, and nothing without one or to a command that expects a state', () => {
    expect(observedBy(hello('1.4.2'), [watch(update, true)])).toEqual([]);
    expect(observedBy(hello(), [watch(update)])).toEqual([]);
    expect(observedBy(hello('1.5.0'), [watch({ on: true }), watch({ firmware: '1.5.0', on: true })])).toEqual([]);
  });

  it('is not replaced by a report of state, unless that contains a firmware', () => {
    expect(observedBy(report(1, { on: true }), [watch(update)])).toEqual([]);
    expect(observedBy(report(1, { firmware: '1.5.0' }), [watch(update)])).toMatchObject([{ matches: true }]);
  });
});

describe('telemetry', () => {
  const telemetry = { rssi: -61, uptimeS: 3_600 };
  const emitted = {
    type: 'device.telemetry',
    tenantId: TENANT,
    deviceId: DEVICE,
    deviceAt: T0 + 1_000,
    at: T0 + 1_000,
  };

  it('of a heartbeat is emitted once, with the battery, and not stored with the device', () => {
    const driven = registered();
    const reporting = { ...heartbeat(1, 'a'), telemetry, battery: 80 } as DeviceEvent;
    expect(driven.send(reporting).outputs).toContainEqual({ ...emitted, telemetry, battery: 80 });
    expect(ofType(driven.send(reporting).outputs, 'device.telemetry')).toEqual([]);
    expect(JSON.stringify(driven.context)).not.toContain('rssi');
  });

  it('has the time that the device signed', () => {
    const signed = { ...heartbeat(1, 'a'), telemetry, header: { ...header(1), deviceAt: T0 - 2 } } as DeviceEvent;
    expect(registered().send(signed).outputs).toContainEqual({ ...emitted, telemetry, deviceAt: T0 - 2 });
  });

  it('of a hello is emitted each time, and nothing for a message without any', () => {
    const driven = registered();
    const reporting = { ...hello(), telemetry: { deviceType: 'toaster', manifestVersion: null } } as DeviceEvent;
    for (const _ of [1, 2])
      expect(driven.send(reporting).outputs).toContainEqual({
        ...{ ...emitted, telemetry: { deviceType: 'toaster', manifestVersion: null } },
      });
    for (const event of [hello(), heartbeat(1), { ...heartbeat(2), telemetry: {} } as DeviceEvent])
      expect(ofType(driven.send(event).outputs, 'device.telemetry')).toEqual([]);
  });
});

describe('the link', () => {
  const firsts: DeviceEvent[] = [
    hello(),
    heartbeat(1),
    report(1, {}),
    ack(1),
    { type: 'message.rejected', at: T0 + 1_000, header: header(1), code: 'PAYLOAD_INVALID' },
  ];

  it.each(firsts)('is online from the first verified message on: $type', (event) => {
    const driven = registered();
    const step = driven.send(event);
    expect(driven.value).toEqual({ administration: { active: 'one_key' }, link: 'online' });
    expect(step.outputs.at(-1)).toEqual(presence(true, T0 + 1_000));
    expect(ofType(driven.send(event).outputs, 'device.presence')).toEqual([]);
  });

  it('is offline after silence, and online again with the next message, a repeated one too', () => {
    const driven = online();
    const step = driven.send({ type: 'presence.lost', at: T0 + 9_000 });
    expect(step.outputs).toEqual([presence(false, T0 + 9_000)]);
    expect(driven.value).toEqual({ administration: { active: 'one_key' }, link: 'offline' });
    expect(driven.send({ type: 'presence.lost', at: T0 + 9_000 })).toEqual({ same: true, outputs: [], timers: [] });
    expect(driven.send(report(1, { on: true })).outputs).toEqual([
      { type: 'message.accepted', repeat: true },
      presence(true, T0 + 1_000),
    ]);
  });
});

describe('the sequence number', () => {
  const messages: [string, (sequence: number, messageId: string) => DeviceEvent][] = [
    ['a state', (sequence, messageId) => report(sequence, { on: false }, { header: header(sequence, messageId) })],
    ['an acknowledgement', (sequence, messageId) => ack(sequence, { header: header(sequence, messageId) })],
    ['a heartbeat', (sequence, messageId) => heartbeat(sequence, messageId)],
    [
      'a refused message',
      (sequence, messageId) => ({
        type: 'message.rejected',
        at: T0,
        header: header(sequence, messageId),
        code: 'PAYLOAD_INVALID',
      }),
    ],
  ];

  it.each(messages)('of %s is used once: its repeat changes nothing', (_, message) => {
    const driven = online();
    expect(driven.send(message(2, 'first')).same).toBe(false);
    expect(driven.context.live.replay.highest).toBe(2);
    expect(driven.send(message(2, 'first'))).toEqual({
      same: true,
      outputs: [{ type: 'message.accepted', repeat: true }],
      timers: [],
    });
  });

  it.each(messages)('of %s is refused under another message, and far below the highest', (_, message) => {
    const driven = online();
    driven.send(message(200, 'first'));
    const refused = (code: string) => ({ same: true, outputs: [{ type: 'message.refused', code }], timers: [] });
    expect(driven.send(message(200, 'second'))).toEqual(refused('SEQUENCE_REUSED'));
    expect(driven.send(message(136, 'old'))).toEqual(refused('SEQUENCE_TOO_OLD'));
    expect(driven.send(message(137, 'late')).same).toBe(false);
  });
});

describe('a hello', () => {
  it('is outside the window and returns where to continue', () => {
    const driven = online();
    driven.send(report(41, {}));
    expect(driven.send(hello())).toEqual({
      same: true,
      outputs: [{ type: 'hello.accepted', lastSequence: 41, keyVersion: 1 }],
      timers: [],
    });
  });

  it('updates the firmware version', () => {
    const driven = online();
    expect(driven.send(hello('1.2.0')).same).toBe(false);
    expect(driven.context.fixed.firmware).toBe('1.2.0');
    expect(driven.send(hello('1.2.0')).same).toBe(true);
    expect(driven.send(hello()).same).toBe(true);
    expect(driven.context.fixed.firmware).toBe('1.2.0');
  });
});

describe('a heartbeat', () => {
  it('changes the window only', () => {
    const driven = online();
    const before = driven.context;
    expect(driven.send(heartbeat(2)).outputs).toEqual([accepted]);
    expect(driven.context.fixed).toBe(before.fixed);
    expect(driven.context.live).toEqual({ ...before.live, replay: driven.context.live.replay });
  });
});

describe('a refused payload', () => {
  it('uses its sequence number and is refused with a reason', () => {
    const driven = online();
    const event: DeviceEvent = { type: 'message.rejected', at: T0, header: header(2), code: 'PAYLOAD_INVALID' };
    expect(driven.send(event).outputs).toEqual([{ type: 'message.refused', code: 'PAYLOAD_INVALID' }]);
    expect(driven.context).toMatchObject({ live: { stateVersion: 1, replay: { highest: 2 } } });
  });
});

describe('an acknowledgement', () => {
  const ackMessage = (status: string, more: object = {}, ofState: object = {}) => ({
    type: 'actor.tell',
    to: { kind: 'command', id: COMMAND },
    event: { type: 'ack.received', deviceId: DEVICE, ack: { status, ...more }, ...ofState },
  });

  it('is passed on to its command', () => {
    const driven = online();
    const step = driven.send(ack(2, { ack: { status: 'failed', error: 'jammed' } }));
    expect(step.outputs).toEqual([accepted, ackMessage('failed', { error: 'jammed' })]);
    expect(driven.context).toMatchObject({ live: { stateVersion: 1, replay: { highest: 2 } } });
  });

  it('of a command that this device does not have is refused and uses its number', () => {
    const driven = online();
    const step = driven.send(ack(2, { known: false, state: { on: false } }));
    expect(step.outputs).toEqual([{ type: 'message.refused', code: 'UNKNOWN_COMMAND' }]);
    expect(driven.context).toMatchObject({ live: { state: { on: true }, replay: { highest: 2 } } });
  });

  it('applies its state before the acknowledgement', () => {
    const driven = online();
    const watches = [{ commandId: COMMAND, expected: { level: 70 }, seen: false }];
    const step = driven.send(ack(2, { state: { level: 70 }, watches, at: T0 + 8 }));
    expect(typesOf(step.outputs)).toEqual([
      ...['message.accepted', 'device.state', 'actor.tell', 'actor.tell', 'samples.put'],
    ]);
    expect(step.outputs.slice(1)).toEqual([
      expect.objectContaining({ state: { on: true, level: 70 }, stateVersion: 2, at: T0 + 8 }),
      {
        type: 'actor.tell',
        to: { kind: 'command', id: COMMAND },
        event: { type: 'state.observed', deviceId: DEVICE, observed: { level: 70 }, matches: true, sequence: 2 },
      },
      ackMessage('succeeded', {}, { sequence: 2 }),
      {
        ...{ type: 'samples.put', at: T0 + 8, deviceAt: T0 + 8, sequence: 2 },
        ...{ text: '{"level":70}', isTelemetry: false },
      },
    ]);
  });

  it('merges its state, never replaces', () => {
    const driven = online();
    driven.send(ack(2, { state: { level: 1 } }));
    expect(driven.context.live.state).toEqual({ on: true, level: 1 });
  });

  it('with a state that is too large is refused completely', () => {
    const driven = online();
    const step = driven.send(ack(2, { state: { text: 'x'.repeat(MAX_STATE_BYTES) } }));
    expect(step.outputs).toEqual([{ type: 'message.refused', code: 'STATE_TOO_LARGE' }]);
    expect(driven.context).toMatchObject({ live: { stateVersion: 1, replay: { highest: 2 } } });
  });
});
