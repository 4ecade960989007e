import { expect, it } from 'vitest';
import { mismatchesOf, telemetryFields } from '../../src/domain/telemetry.ts';

it.each([
  [{}, []],
  [{ rssi: -60, deviceType: null, manifestVersion: null }, []],
  [{ deviceType: 'smart_light', manifestVersion: 2 }, []],
  [{ deviceType: 'toaster' }, ['device_type']],
  [{ deviceType: 'toaster', manifestVersion: 99 }, ['device_type', 'manifest_version']],
  [{ manifestVersion: 0 }, ['manifest_version']],
])('%j differs from the registration in %j', (telemetry, mismatches) => {
  expect(mismatchesOf(telemetry, { deviceType: 'smart_light', manifestVersion: 2 })).toEqual(mismatches);
});

it('has the names of the wire, and only what was reported', () => {
  expect(telemetryFields({})).toEqual({});
  expect(telemetryFields({ deviceType: null, manifestVersion: null, uptimeS: 0 })).toEqual({ uptime_s: 0 });
  expect(telemetryFields({ rssi: -60, freeHeap: 5, deviceType: 'lamp', manifestVersion: 3 })).toEqual({
    ...{ rssi: -60, free_heap: 5, device_type: 'lamp', manifest_version: 3 },
  });
});
