import type { JsonObject } from '../../domain/values.ts';
import {
  applyChange,
  applyCommandChange,
  requireParam,
  roundTo,
  type SimulatedDevice,
  type SimulationEnvironment,
} from './simulated-device.ts';
import { daylightLux, outsideCelsius } from './weather.ts';

type SensorState = {
  temperature: number;
  humidity: number;
  illuminance_lx: number;
  battery: number;
  alarm: boolean;
  report_interval_s: number;
  thresholds: { low: number; high: number };
  sensitivity: string;
  indicator: boolean;
};

const initialState: SensorState = {
  temperature: 12,
  humidity: 60,
  illuminance_lx: 0,
  battery: 96,
  alarm: false,
  report_interval_s: 30,
  thresholds: { low: -10, high: 35 },
  sensitivity: 'medium',
  indicator: true,
};

const BATTERY_PER_DAY = 0.05;

function readThresholds(params: JsonObject): SensorState['thresholds'] {
  const thresholds = { low: requireParam(params, 'low', 'number'), high: requireParam(params, 'high', 'number') };
  if (thresholds.low > thresholds.high) throw new Error('low must not be above high');
  return thresholds;
}

/** A sensor on a sheltered balcony: 2 °C above the outside temperature, with slow drift and noise. */
export function simulateSensor(world: SimulationEnvironment, name = 'Balcony sensor'): SimulatedDevice {
  const state: SensorState = { ...initialState };
  let battery = state.battery;
  let drift = 0;
  let correction = 0;
  let sinceReportS = 0;
  const noise = (size: number) => (world.random() - 0.5) * 2 * size;

  const measure = (): JsonObject => {
    const now = world.clock.now();
    const celsius = outsideCelsius(now) + 2 + drift + correction;
    const { low, high } = state.thresholds;
    return applyChange(state, {
      temperature: roundTo(celsius + noise(0.05), 1),
      humidity: roundTo(Math.min(100, Math.max(0, 95 - 2.5 * celsius + noise(1))), 0),
      illuminance_lx: roundTo(daylightLux(now) * (0.8 + 0.2 * world.random()), 0),
      battery: roundTo(battery, 0),
      // An alarm persists until `clear_alarm`.
      alarm: state.alarm || celsius < low || celsius > high,
    });
  };
  measure();

  return {
    name,
    deviceType: 'climate_sensor',
    firmware: '0.9.5',
    state,
    commands: {
      read_now: () => {
        sinceReportS = 0;
        const read = measure();
        return { result: read, state: read };
      },
      set_report_interval: (params) =>
        applyCommandChange(state, { report_interval_s: requireParam(params, 'seconds', 'number') }),
      set_thresholds: (params) => applyCommandChange(state, { thresholds: readThresholds(params) }),
      set_sensitivity: (params) => applyCommandChange(state, { sensitivity: requireParam(params, 'level', 'string') }),
      calibrate: (params) => {
        correction += requireParam(params, 'reference', 'number') - state.temperature;
        return { state: measure() };
      },
      clear_alarm: () => applyCommandChange(state, { alarm: false }),
      set_indicator: (params) => applyCommandChange(state, { indicator: requireParam(params, 'enabled', 'boolean') }),
    },
    heartbeat: () => ({ battery: state.battery, rssi: -Math.round(70 + world.random() * 12) }),
    tick: (elapsedS) => {
      battery = Math.max(0, battery - (BATTERY_PER_DAY * elapsedS) / 86_400);
      drift = drift * 0.999 + noise(0.02 * Math.sqrt(Math.min(elapsedS, 60)));
      sinceReportS += elapsedS;
      if (sinceReportS < state.report_interval_s) return null;
      sinceReportS = 0;
      return measure();
    },
  };
}
