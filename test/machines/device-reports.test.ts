import { describe, expect, it } from 'vitest';
import { MAX_STATE_BYTES, twinOf } from '../../src/domain/twin.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import { deviceDefinition } from '../../src/machines/device-record.ts';
import type { DeviceEvent, VerificationWatch } from '../../src/machines/device-types.ts';
import { flatContext } from '../support/stored-context.ts';
import { COMMAND, DEVICE, header, ofType, online, report, T0, TENANT, typesOf, uuid } from './samples.ts';

describe('a reported state', () => {
  it('leaves samples at the time that the device signed, also if it is late, and none if it is empty', () => {
    const driven = online();
    const samplesOf = (sequence: number, state: JsonObject, deviceAt: number) =>
      driven
        .send({ ...report(sequence, state, { at: T0 }), header: { ...header(sequence), deviceAt } } as DeviceEvent)
        .outputs.filter(({ type }) => type === 'samples.put');
    expect(samplesOf(3, { level: 3 }, T0 - 2)).toMatchObject([{ sequence: 3, deviceAt: T0 - 2, text: '{"level":3}' }]);
    expect(samplesOf(2, { level: 2 }, T0 - 9)).toMatchObject([{ sequence: 2, deviceAt: T0 - 9, text: '{"level":2}' }]);
    expect(samplesOf(2, { level: 2 }, T0 - 9)).toEqual([]);
    expect(samplesOf(4, {}, T0)).toEqual([]);
  });

  it('is merged, counted and published', () => {
    const driven = online();
    const step = driven.send(report(2, { level: 5, on: null }, { at: T0 + 7 }));
    expect(step.outputs).toEqual([
      { type: 'message.accepted', repeat: false },
      {
        type: 'device.state',
        tenantId: TENANT,
        deviceId: DEVICE,
        state: { level: 5 },
        stateVersion: 2,
        ...{ report: { level: 5, on: null }, deviceAt: T0 + 7, sequence: 2 },
        at: T0 + 7,
      },
      {
        ...{ type: 'samples.put', at: T0 + 7, deviceAt: T0 + 7, sequence: 2 },
        ...{ text: '{"level":5,"on":null}', isTelemetry: false },
      },
    ]);
    expect(driven.context).toMatchObject({
      live: { state: { level: 5 }, stateVersion: 2, reported: { at: T0 + 7, bytes: 11 } },
    });
  });

  it.each<[string, [number, JsonObject, boolean?][], JsonObject]>([
    [
      'a later one said the property',
      [
        [4, { level: 4 }],
        [3, { level: 3, on: true }],
      ],
      { level: 4, on: true },
    ],
    [
      'a later one removed the property',
      [
        [4, { on: null }],
        [3, { on: true }],
      ],
      { level: 1 },
    ],
    [
      'two arrive late',
      [
        [5, { level: 5 }],
        [3, { level: 3, on: 3 }],
        [4, { on: 4 }],
      ],
      { level: 5, on: 4 },
    ],
    [
      'two arrive late, the other way',
      [
        [5, { level: 5 }],
        [4, { on: 4 }],
        [3, { level: 3, on: 3 }],
      ],
      { level: 5, on: 4 },
    ],
    [
      'a later one was full',
      [
        [4, { a: 4 }, true],
        [3, { level: 3, b: 3 }],
      ],
      { a: 4 },
    ],
    [
      'it is full',
      [
        [4, { a: 4 }],
        [3, { b: 3 }, true],
      ],
      { a: 4, b: 3 },
    ],
    [
      'nothing later said the property',
      [
        [4, { a: 4 }],
        [3, { level: 3 }],
      ],
      { a: 4, level: 3 },
    ],
  ])('that arrives late is applied in the order of the numbers if %s', (_, reports, state) => {
    const driven = online();
    driven.send(report(2, { level: 1 }, { full: true }));
    for (const [number, state, full = false] of reports) driven.send(report(number, state, { full }));
    expect(driven.context).toMatchObject({
      live: { stateVersion: 2 + reports.length, replay: { highest: reports[0]?.[0] } },
    });
    expect(driven.context.live.state).toEqual(state);
    // All sequence numbers are used, so no message can arrive late.
    expect(driven.context.live.reported.order === null).toBe(reports.length === driven.context.live.replay.highest - 2);
  });

  it('keeps the order over a restart, and over messages that report nothing', () => {
    const driven = online();
    driven.send({ type: 'heartbeat.received', at: T0 + 1_000, header: header(3) });
    driven.send(report(4, { level: 4 }));
    const stored = JSON.parse(JSON.stringify(flatContext(deviceDefinition.toStored(driven.context))));
    expect(deviceDefinition.fromStored(stored)).toEqual(driven.context);
    driven.send(report(2, { level: 2 }));
    expect(driven.context.live.state).toMatchObject({ level: 4 });
    expect(driven.context.live.reported.order).toBeNull();
  });

  it('replaces the complete state if it is a full report', () => {
    const driven = online();
    driven.send(report(2, { level: 5 }, { full: true }));
    expect(driven.context.live.state).toEqual({ level: 5 });
  });

  it('counts even if it has no new values', () => {
    const driven = online();
    driven.send(report(2, { on: true }));
    expect(driven.context.live.stateVersion).toBe(2);
  });

  it('is refused when the merged state exceeds 32 KiB, and uses its number', () => {
    const driven = online();
    const step = driven.send(report(2, { text: 'x'.repeat(MAX_STATE_BYTES) }));
    expect(step.outputs).toEqual([{ type: 'message.refused', code: 'STATE_TOO_LARGE' }]);
    expect(driven.context).toMatchObject({ live: { state: { on: true }, stateVersion: 1, replay: { highest: 2 } } });
  });

  it('has the same measured size after a reload', () => {
    const driven = online();
    driven.send(report(2, { nested: { a: [1, 'two', null] }, é: '\u{1f4a1}' }));
    const { bytes } = driven.context.live.reported;
    expect(bytes).toBe(twinOf(driven.context.live.state).bytes);
    driven.reload();
    expect(driven.context.live.reported.bytes).toBe(bytes);
  });

  it('needs little storage for a device with 20 properties', () => {
    const driven = online();
    const state = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`property_${n}`, `value ${n}`]));
    for (let n = 2; n < 80; n++) driven.send(report(n, { ...state, counter: n }, { header: header(n, uuid(n)) }));
    expect(driven.context.live.replay.slots.length).toBeLessThanOrEqual(576);
  });
});

describe('a watch', () => {
  const watch = (expected: VerificationWatch['expected'], seen = false, commandId = COMMAND): VerificationWatch => ({
    commandId,
    expected,
    seen,
  });
  const observedMessage = (matches: boolean, observed: object, id = COMMAND) => ({
    type: 'actor.tell',
    to: { kind: 'command', id },
    event: { type: 'state.observed', deviceId: DEVICE, observed, matches, sequence: 2 },
  });

  it('notifies its command of a match, with only the properties that the command expects', () => {
    const step = online().send(report(2, { level: 70, secret: 1 }, { watches: [watch({ level: 70 }, true)] }));
    expect(typesOf(step.outputs)).toEqual(['message.accepted', 'device.state', 'actor.tell', 'samples.put']);
    expect(step.outputs[2]).toEqual(observedMessage(true, { level: 70 }));
  });

  it('matches on the merged state, not on the report alone', () => {
    const step = online().send(report(2, { level: 70 }, { watches: [watch({ level: 70, on: true })] }));
    expect(ofType(step.outputs, 'actor.tell')).toEqual([observedMessage(true, { level: 70, on: true })]);
  });

  it('notifies of the first state that does not match, and of no other', () => {
    const step = (seen: boolean) => online().send(report(2, { on: false }, { watches: [watch({ level: 70 }, seen)] }));
    expect(ofType(step(false).outputs, 'actor.tell')).toEqual([observedMessage(false, {})]);
    expect(ofType(step(true).outputs, 'actor.tell')).toEqual([]);
  });

  it('can be one of several', () => {
    const watches = [watch({ on: false }), watch({ on: true }, false, uuid(31)), watch({ on: 0 }, true, uuid(32))];
    const step = online().send(report(2, {}, { watches }));
    expect(ofType(step.outputs, 'actor.tell')).toEqual([
      observedMessage(false, { on: true }),
      observedMessage(true, { on: true }, uuid(31)),
    ]);
  });

  it('reads no property that the state does not own', () => {
    const expected = JSON.parse('{"__proto__": {"a": 1}, "toString": null}');
    const step = online().send(report(2, {}, { watches: [watch(expected)] }));
    expect(ofType(step.outputs, 'actor.tell')).toEqual([observedMessage(false, {})]);
  });
});
