import { describe, expect, it } from 'vitest';
import type { ManifestProperty } from '../../src/domain/manifest.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import { pausedUntil } from '../../src/machines/device-samples.ts';
import type { DeviceEvent } from '../../src/machines/device-types.ts';
import { device, header, manifest, ofType, registered, report, requester, T0 } from './samples.ts';

const DAY = 86_400_000;
const MINUTE = 60_000;

const publish = (version: number, properties: Record<string, ManifestProperty>): DeviceEvent => ({
  ...{ type: 'manifest.update', at: T0, by: requester, expectedVersion: version },
  manifest: manifest(version, { properties, own: true }),
});

type Driven = ReturnType<typeof registered>;

const heartbeat = (sequence: number, at: number, telemetry: JsonObject, keyVersion = 1): DeviceEvent => ({
  ...{ type: 'heartbeat.received', at, by: device, header: header(sequence, `m${sequence}`, keyVersion) },
  telemetry,
});
const hello = (at: number, telemetry: JsonObject): DeviceEvent => ({
  ...{ type: 'hello.received', at, by: device, header: { keyVersion: 1 }, firmware: '1.0.0', telemetry },
});

/** Samples of a step: sequence numbers and texts. */
const stored = (driven: Driven, event: DeviceEvent) =>
  ofType(driven.send(event).outputs, 'samples.put').map(({ sequence, text }) => [sequence, text]);

/** Online, with nothing stored. */
function online(): Driven {
  const driven = registered();
  driven.send(heartbeat(1, T0, {}));
  return driven;
}

describe('properties of the manifest', () => {
  it('leave no samples if all are off, and the twin follows', () => {
    const driven = online();
    driven.send(publish(1, { level: { history: 'off' } }));
    expect(stored(driven, report(2, { level: 5 }))).toEqual([]);
    expect(stored(driven, report(3, { level: 6, on: true }))).toEqual([[3, '{"on":true}']]);
    expect(driven.context.live.state).toEqual({ level: 6, on: true });
  });

  it('are compared with the last value kept, after a restart too', () => {
    const driven = online();
    driven.send(publish(1, { level: { history: 'change', deadband: 2 } }));
    const texts = [10, 11, 12, 13, 15, 16].map((level, n) => {
      driven.reload();
      return stored(driven, report(2 + n, { level }));
    });
    expect(texts).toEqual([[[2, '{"level":10}']], [], [], [[5, '{"level":13}']], [], [[7, '{"level":16}']]]);
  });

  it('begin again with a rule that was not in effect before', () => {
    const driven = online();
    driven.send(publish(1, { level: { history: 'off' } }));
    stored(driven, report(2, { level: 5 }));
    driven.send(publish(2, { level: { history: 'change' } }));
    expect(stored(driven, report(3, { level: 5 }))).toEqual([[3, '{"level":5}']]);
    expect(stored(driven, report(4, { level: 5 }))).toEqual([]);
    driven.send(publish(3, {}));
    expect(stored(driven, report(5, { level: 5 }))).toEqual([[5, '{"level":5}']]);
    expect(driven.context.live.samples.kept.size).toBe(0);
  });

  it('keep all samples while a message is missing, so that it may be late', () => {
    const driven = online();
    driven.send(publish(1, { level: { history: 'change' } }));
    stored(driven, report(2, { level: 1 }));
    expect(stored(driven, report(4, { level: 1 }))).toEqual([[4, '{"level":1}']]);
    expect(stored(driven, report(3, { level: 2 }))).toEqual([[3, '{"level":2}']]);
    expect(stored(driven, report(5, { level: 1 }))).toEqual([]);
  });
});

describe('telemetry', () => {
  it('of a hello is stored with it', () => {
    expect(stored(online(), hello(T0 + 1, { uptimeS: 5, deviceType: null }))).toEqual([[1, '{"uptime_s":5}']]);
    const driven = online();
    driven.send(hello(T0, {}));
    expect(driven.send(hello(T0 + 1, { deviceType: null })).same).toBe(true);
  });

  it('of heartbeats waits for the next commit, in their order', () => {
    const driven = online();
    expect(stored(driven, heartbeat(2, T0 + 1, { rssi: -60 }))).toEqual([]);
    expect(stored(driven, heartbeat(3, T0 + 2, { rssi: -61 }))).toEqual([]);
    driven.reload();
    const { outputs } = driven.send(report(4, { on: true }));
    expect(ofType(outputs, 'samples.put').map(({ text, isTelemetry, at }) => [text, isTelemetry, at])).toEqual([
      ['{"rssi":-60}', true, T0 + 1],
      ['{"rssi":-61}', true, T0 + 2],
      ['{"on":true}', false, T0 + 1_000],
    ]);
    expect(driven.context.live.samples.pending).toEqual([]);
  });

  it('of heartbeats is stored when the device goes offline or online', () => {
    const driven = online();
    stored(driven, heartbeat(2, T0 + 1, { rssi: -60 }));
    expect(stored(driven, { type: 'presence.lost', at: T0 + 5 })).toEqual([[2, '{"rssi":-60}']]);
    expect(stored(driven, heartbeat(3, T0 + 9, { rssi: -61 }))).toEqual([[3, '{"rssi":-61}']]);
  });

  it('of ten heartbeats, or after ten minutes, causes a commit', () => {
    const driven = online();
    const frequent = Array.from({ length: 20 }, (_, n) => stored(driven, heartbeat(2 + n, T0 + n, { rssi: n })).length);
    expect(frequent.flatMap((count, n) => (count === 0 ? [] : [[n, count]]))).toEqual([
      [9, 10],
      [19, 10],
    ]);
    const rare = [1, 6, 11].map((minute) => stored(driven, heartbeat(21 + minute, T0 + minute * MINUTE, { rssi: 0 })));
    expect(rare.map(({ length }) => length)).toEqual([0, 0, 3]);
  });

  it('follows the rules of the manifest, and a repeated heartbeat leaves none', () => {
    const driven = online();
    driven.send(
      publish(1, { '$telemetry.rssi': { history: 'change', deadband: 5 }, '$telemetry.uptime_s': { history: 'off' } }),
    );
    for (const [n, rssi] of [-60, -62, -66, -70].entries())
      stored(driven, heartbeat(2 + n, T0 + n, { rssi, uptimeS: n }));
    stored(driven, heartbeat(4, T0 + 9, { rssi: 0 }));
    expect(stored(driven, { type: 'presence.lost', at: T0 + 9 })).toEqual([
      [2, '{"rssi":-60}'],
      [4, '{"rssi":-66}'],
    ]);
  });
});

describe('the bytes of a day', () => {
  const limited = (sequence: number, state: JsonObject, at: number, historyBytes = 30) =>
    report(sequence, state, { at, header: { ...header(sequence), historyBytes } });

  it('end the samples of the day, also of small reports and after a restart, and not the reports', () => {
    const driven = online();
    expect(stored(driven, limited(2, { text: '0123456789' }, T0))).toHaveLength(1);
    const over = driven.send(limited(3, { text: 'abcdefghij', on: true }, T0 + 1));
    expect(ofType(over.outputs, 'samples.dropped')).toEqual([{ type: 'samples.dropped', samples: 2 }]);
    driven.reload();
    expect(stored(driven, limited(4, { on: false }, T0 + 2))).toEqual([]);
    expect(driven.context.live).toMatchObject({ state: { text: 'abcdefghij', on: false }, stateVersion: 3 });
    const until = pausedUntil(driven.context.live.samples, T0 + 2) as number;
    expect(until % DAY).toBe(0);
    expect(until - T0).toBeLessThanOrEqual(DAY);
    // A clock that was put back to the day before is still in the same day.
    expect(stored(driven, limited(5, { on: false }, until - DAY - 1))).toEqual([]);
    expect(pausedUntil(driven.context.live.samples, until)).toBeNull();
    expect(stored(driven, limited(6, { on: false }, until))).toEqual([[6, '{"on":false}']]);
  });

  it('count what is stored: neither what is off nor what was not stored is compared with', () => {
    const driven = online();
    driven.send(publish(1, { secret: { history: 'off' }, level: { history: 'change' } }));
    expect(stored(driven, limited(2, { secret: 'x'.repeat(60), level: 1 }, T0))).toEqual([[2, '{"level":1}']]);
    expect(stored(driven, limited(3, { level: 2, text: 'x'.repeat(30) }, T0))).toEqual([]);
    expect(stored(driven, limited(4, { level: 2 }, T0 + DAY))).toEqual([[4, '{"level":2}']]);
  });

  it('leave telemetry that was not stored out of the comparison', () => {
    const driven = online();
    driven.send(publish(1, { '$telemetry.rssi': { history: 'change' }, '$telemetry.uptime_s': { history: 'change' } }));
    driven.send(heartbeat(2, T0, { rssi: -60 }));
    expect(stored(driven, limited(3, { on: true }, T0))).toEqual([
      [2, '{"rssi":-60}'],
      [3, '{"on":true}'],
    ]);
    driven.send(heartbeat(4, T0 + 1, { rssi: -70 }));
    expect(stored(driven, limited(5, { text: 'x'.repeat(30) }, T0 + 2))).toEqual([]);
    driven.send(heartbeat(6, T0 + DAY, { rssi: -70 }));
    expect(stored(driven, limited(7, { on: true }, T0 + DAY, 60))).toEqual([
      [6, '{"rssi":-70}'],
      [7, '{"on":true}'],
    ]);
  });

  it('begin again after a clock that was days ahead is put back', () => {
    const driven = online();
    expect(stored(driven, limited(2, { text: '0123456789' }, T0 + 400 * DAY))).toHaveLength(1);
    expect(stored(driven, limited(3, { text: '0123456789' }, T0))).toHaveLength(1);
    expect(stored(driven, limited(4, { text: '0123456789' }, T0))).toEqual([]);
    expect(pausedUntil(driven.context.live.samples, T0)).toBeLessThanOrEqual(T0 + DAY);
    expect(pausedUntil(driven.context.live.samples, T0 - 2 * DAY)).toBeNull();
    expect(stored(driven, limited(5, { on: true }, T0 + DAY))).toEqual([[5, '{"on":true}']]);
  });

  it('have no limit without the setting', () => {
    const driven = online();
    const big = { text: 'x'.repeat(30_000) };
    expect(stored(driven, report(2, big))).toHaveLength(1);
    expect(driven.context.live.samples.bytes).toBe(30_011);
  });
});

it('an import marks the position of the device in its commit, unless it leaves no samples', () => {
  const driven = online();
  driven.send(publish(1, { noise: { history: 'off' } }));
  const imported = (state: JsonObject) =>
    driven.send({ type: 'history.import', at: T0 + 5, by: requester, reports: [{ deviceAt: T0 - DAY, state }] })
      .outputs;
  expect(ofType(imported({ level: 1 }), 'import.put')).toEqual([{ type: 'import.put', at: T0 + 5 }]);
  expect(ofType(imported({ noise: 1 }), 'import.put')).toEqual([]);
});
