import type { JsonObject } from '../../domain/values.ts';
import {
  applyChange,
  applyCommandChange,
  requireParam,
  roundTo,
  type SimulatedDevice,
  type SimulationEnvironment,
} from './simulated-device.ts';

type LightState = {
  on: boolean;
  /** Percent. */
  brightness: number;
  color_temperature: number;
  color: { hue: number; saturation: number };
  effect: string;
  power_w: number;
  energy_wh: number;
};

const FULL_POWER_W = 9.5;
const STANDBY_W = 0.3;
const EFFECTS = ['none', 'sunrise', 'candle', 'party'];
/** Average uses of the wall switch. */
const WALL_SWITCH_PER_HOUR = 0.5;

export function simulateLight(world: SimulationEnvironment, name = 'Ceiling light'): SimulatedDevice {
  const state: LightState = {
    on: false,
    brightness: 80,
    color_temperature: 2_700,
    color: { hue: 30, saturation: 20 },
    effect: 'none',
    power_w: STANDBY_W,
    energy_wh: 0,
  };
  let energyWh = 0;
  const power = (on: boolean, brightness: number) =>
    roundTo(on ? STANDBY_W + (FULL_POWER_W * brightness) / 100 : STANDBY_W, 1);
  const shine = (on: boolean, brightness: number): JsonObject =>
    applyChange(state, { on, brightness, power_w: power(on, brightness) });
  // Switching on must give light, even if the brightness was dimmed to 0.
  const turn = (on: boolean): JsonObject => shine(on, on && state.brightness === 0 ? 100 : state.brightness);

  return {
    name,
    deviceType: 'smart_light',
    firmware: '1.4.2',
    state,
    commands: {
      turn_on: () => ({ state: turn(true) }),
      turn_off: () => ({ state: turn(false) }),
      toggle: () => ({ state: turn(!state.on) }),
      set_brightness: (params) => {
        const brightness = requireParam(params, 'level', 'number');
        return { state: shine(brightness > 0, brightness) };
      },
      set_color: (params) => {
        const hue = requireParam(params, 'hue', 'number');
        const saturation =
          params.saturation === undefined ? state.color.saturation : requireParam(params, 'saturation', 'number');
        return applyCommandChange(state, { color: { hue, saturation } });
      },
      set_color_temperature: (params) =>
        applyCommandChange(state, { color_temperature: requireParam(params, 'kelvin', 'number') }),
      set_effect: (params) => {
        const effect = requireParam(params, 'effect', 'string');
        if (!EFFECTS.includes(effect)) throw new Error(`effect must be one of ${EFFECTS.join(', ')}`);
        return applyCommandChange(state, { effect });
      },
    },
    continueFrom: ({ energy_wh: used }) => {
      if (typeof used !== 'number') return;
      energyWh = used;
      applyChange(state, { energy_wh: used });
    },
    heartbeat: () => ({ rssi: -Math.round(52 + world.random() * 12) }),
    tick: (elapsedS) => {
      energyWh += (state.power_w * elapsedS) / 3_600;
      const used = roundTo(energyWh, 1);
      const patch = used === state.energy_wh ? {} : applyChange(state, { energy_wh: used });
      const switched = world.random() < (WALL_SWITCH_PER_HOUR * elapsedS) / 3_600;
      return switched ? { ...patch, ...turn(!state.on) } : patch;
    },
  };
}
