import {
  applyChange,
  applyCommandChange,
  requireParam,
  roundTo,
  type SimulatedDevice,
  type SimulationEnvironment,
} from './simulated-device.ts';
import { outsideCelsius } from './weather.ts';

type ClimateState = {
  on: boolean;
  mode: string;
  target_celsius: number;
  /** Measured in the room, °C. */
  temperature: number;
  humidity: number;
  target_humidity: number;
  /** Current activity: heating, cooling, drying, fan or idle. */
  activity: string;
  fan_speed: string;
  swing: boolean;
  child_lock: boolean;
};

/** Fraction of the temperature difference to the outside that the room loses per hour. */
const HEAT_LOSS_PER_HOUR = 0.12;
/** °C per hour at full power. */
const DEGREES_PER_HOUR = 9;
/** °C off the target before the unit starts heating or cooling. */
const HYSTERESIS = 0.3;

/** The activity of the unit when the room has this temperature. */
function activityAt(celsius: number, { on, mode, target_celsius, activity }: ClimateState): string {
  if (!on || mode === 'off') return 'idle';
  const lack = target_celsius - celsius;
  const mayHeat = mode === 'heat' || mode === 'auto';
  const mayCool = mode === 'cool' || mode === 'auto';
  if (mayHeat && lack > (activity === 'heating' ? 0 : HYSTERESIS)) return 'heating';
  if (mayCool && lack < (activity === 'cooling' ? 0 : -HYSTERESIS)) return 'cooling';
  if (mode === 'dry') return 'drying';
  return mode === 'fan_only' ? 'fan' : 'idle';
}

export function simulateClimate(world: SimulationEnvironment, name = 'Thermostat'): SimulatedDevice {
  const state: ClimateState = {
    on: true,
    mode: 'heat',
    target_celsius: 21,
    temperature: 20.4,
    humidity: 46,
    target_humidity: 45,
    activity: 'idle',
    fan_speed: 'auto',
    swing: false,
    child_lock: false,
  };
  let celsius = state.temperature;
  let humidity = state.humidity;

  const set = (patch: Partial<ClimateState>) => {
    Object.assign(state, patch);
    return applyCommandChange(state, { ...patch, activity: activityAt(celsius, state) });
  };

  return {
    name,
    deviceType: 'room_climate',
    firmware: '3.1.0',
    state,
    commands: {
      turn_on: () => set({ on: true }),
      turn_off: () => set({ on: false }),
      set_temperature: (params) => set({ target_celsius: requireParam(params, 'celsius', 'number') }),
      set_mode: (params) => set({ mode: requireParam(params, 'mode', 'string') }),
      set_fan_speed: (params) => set({ fan_speed: requireParam(params, 'speed', 'string') }),
      set_humidity: (params) => set({ target_humidity: requireParam(params, 'percent', 'number') }),
      set_swing: (params) => set({ swing: requireParam(params, 'enabled', 'boolean') }),
      set_child_lock: (params) => set({ child_lock: requireParam(params, 'enabled', 'boolean') }),
    },
    heartbeat: () => ({ rssi: -Math.round(55 + world.random() * 8) }),
    tick: (elapsedS) => {
      const hours = elapsedS / 3_600;
      const power =
        state.activity === 'heating' ? DEGREES_PER_HOUR : state.activity === 'cooling' ? -DEGREES_PER_HOUR : 0;
      // Closed-form solution, exact for any step length: a long step does not overshoot.
      const balance = outsideCelsius(world.clock.now()) + power / HEAT_LOSS_PER_HOUR;
      celsius = balance + (celsius - balance) * Math.exp(-HEAT_LOSS_PER_HOUR * hours);
      const drying = state.activity === 'drying' ? 3 : 0.2;
      humidity += (state.target_humidity - humidity) * (1 - Math.exp(-drying * hours)) + (world.random() - 0.5) * hours;
      const patch: Partial<ClimateState> = {};
      const [temperature, percent, activity] = [roundTo(celsius, 1), roundTo(humidity, 0), activityAt(celsius, state)];
      if (temperature !== state.temperature) patch.temperature = temperature;
      if (percent !== state.humidity) patch.humidity = percent;
      if (activity !== state.activity) patch.activity = activity;
      return applyChange(state, patch);
    },
  };
}
