import { expect, it } from 'vitest';
import { changesOf } from '../../../console/src/dashboards/use-tile-devices.ts';
import { deviceValueAt } from '../../../console/src/devices/telemetry.tsx';

const device = {
  state: { on: true },
  battery: 70,
  telemetry: null,
  online: true,
  last_seen: null,
} as unknown as Parameters<typeof changesOf>[1];
const times = { timestamp: Date.UTC(2026, 2, 1), device_timestamp: Date.UTC(2026, 1, 1) };
const heartbeat = { type: 'telemetry_update', device_id: 'a', ...times } as const;

it('a heartbeat changes the telemetry that it has, and when the device was last seen', () => {
  const first = changesOf({ ...heartbeat, rssi: -61, uptime_s: 5 }, device);
  expect(first).toMatchObject({ last_seen: '2026-03-01T00:00:00.000Z', battery: 70 });
  const second = {
    ...device,
    ...first,
    ...changesOf({ ...heartbeat, rssi: -60, battery: 69 }, { ...device, ...first }),
  };
  expect(second.telemetry).toEqual({
    ...{ rssi: -60, uptime_s: 5, free_heap: null, device_type: null, manifest_version: null },
    mismatches: [],
  });
  expect([second.battery, second.state, second.online]).toEqual([69, { on: true }, true]);
  expect(deviceValueAt(second, '$telemetry.rssi')).toBe(-60);
  expect(deviceValueAt(second, '$telemetry.battery')).toBe(69);
  expect(deviceValueAt(second, '$telemetry.free_heap')).toBeUndefined();
  expect(deviceValueAt(second, 'on')).toBe(true);
});

it('other updates change the state or the presence alone', () => {
  expect(changesOf({ type: 'presence_update', device_id: 'a', online: false }, device)).toEqual({ online: false });
  const state = { on: false };
  expect(changesOf({ type: 'state_update', device_id: 'a', state, timestamp: 0 }, device)).toEqual({
    ...{ state, last_seen: '1970-01-01T00:00:00.000Z' },
  });
  const later = { ...device, last_seen: '2026-03-01T00:00:00.000Z' };
  expect(changesOf({ type: 'state_update', device_id: 'a', state, timestamp: 0 }, later)).toEqual({
    ...{ state, last_seen: later.last_seen },
  });
});
