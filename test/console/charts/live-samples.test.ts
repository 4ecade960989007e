import { expect, it } from 'vitest';
import { kindsOf, liveSampleOf } from '../../../console/src/charts/live-samples.ts';

const series = (property: string, deviceId = 'a') => ({ deviceId, property });
const report = { level: 3, $telemetry: { rssi: -1 } };
const reported = { type: 'report_update', device_id: 'a', report, device_timestamp: 5, timestamp: 7 } as const;
const telemetry = { type: 'telemetry_update', device_id: 'a', timestamp: 9, rssi: -61, battery: 80 } as const;
const heartbeat = { ...telemetry, device_timestamp: 6 };

it('a report has samples of the state, at the time of the device', () => {
  expect(liveSampleOf(reported, series('level'))).toEqual({ at: 5, value: 3 });
  expect(liveSampleOf(reported, series('\\$telemetry.rssi'))).toEqual({ at: 5, value: -1 });
  expect(liveSampleOf(reported, series('$telemetry.rssi'))).toBeUndefined();
  expect(liveSampleOf(reported, series('level', 'b'))).toBeUndefined();
});

it('telemetry has samples below `$telemetry`, at the time of the device, and none of its other members', () => {
  expect(liveSampleOf(heartbeat, series('$telemetry.rssi'))).toEqual({ at: 6, value: -61 });
  expect(liveSampleOf(heartbeat, series('$telemetry.battery'))).toEqual({ at: 6, value: 80 });
  for (const property of [
    'rssi',
    '$telemetry.free_heap',
    '$telemetry.timestamp',
    '$telemetry.device_timestamp',
    '$telemetry.type',
  ])
    expect(liveSampleOf(heartbeat, series(property)), property).toBeUndefined();
  expect(liveSampleOf(heartbeat, series('$telemetry.rssi', 'b'))).toBeUndefined();
});

it('telemetry of a service that does not send the time of the device has the time of its receipt', () => {
  expect(liveSampleOf(telemetry, series('$telemetry.rssi'))).toEqual({ at: 9, value: -61 });
});

it('only the kinds of updates that have samples of the series are requested', () => {
  expect(kindsOf([series('level')])).toBe('report');
  expect(kindsOf([series('$telemetry.rssi')])).toBe('telemetry');
  expect(kindsOf([series('level'), series('$telemetry.rssi')])).toBe('report,telemetry');
});
