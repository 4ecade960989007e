import type { JsonObject } from '../../domain/values.ts';
import { change, changed, param, round, type SimulatedDevice, type World } from './simulated.ts';
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

const BATTERY_PER_DAY = 0.05;

/** Hangs on a sheltered balcony: the outside, a little warmer, with the noise of a cheap sensor. */
export function simulateSensor(world: World, name = 'Balcony sensor'): SimulatedDevice {
  const state: SensorState = {
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
  let battery = state.battery;
  let drift = 0;
  let correction = 0;
  let sinceReportS = 0;
  const noise = (size: number) => (world.random() - 0.5) * 2 * size;

  const measure = (): JsonObject => {
    const now = world.clock.now();
    const celsius = outsideCelsius(now) + 2 + drift + correction;
    const { low, high } = state.thresholds;
    return change(state, {
      temperature: round(celsius + noise(0.05), 1),
      humidity: round(Math.min(100, Math.max(0, 95 - 2.5 * celsius + noise(1))), 0),
      illuminance_lx: round(daylightLux(now) * (0.8 + 0.2 * world.random()), 0),
      battery: round(battery, 0),
      // An alarm stays until somebody ends it.
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
      set_report_interval: (params) => changed(state, { report_interval_s: param(params, 'seconds', 'number') }),
      set_thresholds: (params) => {
        const thresholds = { low: param(params, 'low', 'number'), high: param(params, 'high', 'number') };
        if (thresholds.low > thresholds.high) throw new Error('low is above high');
        return changed(state, { thresholds });
      },
      set_sensitivity: (params) => changed(state, { sensitivity: param(params, 'level', 'string') }),
      calibrate: (params) => {
        correction += param(params, 'reference', 'number') - state.temperature;
        return { state: measure() };
      },
      clear_alarm: () => changed(state, { alarm: false }),
      set_indicator: (params) => changed(state, { indicator: param(params, 'enabled', 'boolean') }),
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
