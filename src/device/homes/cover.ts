import type { JsonObject } from '../../domain/values.ts';
import type { HandlerContext } from '../command-runner.ts';
import {
  applyChange,
  applyCommandChange,
  requireParam,
  type SimulatedDevice,
  type SimulationEnvironment,
} from './simulated-device.ts';

type CoverState = {
  /** 0 is closed, 100 is open. */
  position: number;
  tilt: number;
  movement: string;
};

const FULL_TRAVEL_MS = 12_000;
/** Percent of travel between two progress reports. */
const REPORT_STEP_PERCENT = 20;
const TILT_MS = 1_500;

export function simulateCover(world: SimulationEnvironment, name = 'Living room blind'): SimulatedDevice {
  const state: CoverState = { position: 100, tilt: 50, movement: 'stopped' };
  /** Number of the latestMovement movement: a newer movement interrupts the previous one. */
  let latestMovement = 0;

  const moveTo = async (target: number, { progress, signal }: HandlerContext) => {
    const movement = ++latestMovement;
    const from = state.position;
    while (state.position !== target) {
      const step =
        Math.sign(target - state.position) * Math.min(REPORT_STEP_PERCENT, Math.abs(target - state.position));
      state.movement = step > 0 ? 'opening' : 'closing';
      await world.pause((FULL_TRAVEL_MS * Math.abs(step)) / 100, signal);
      if (movement !== latestMovement) throw new Error(`interrupted at ${state.position} %`);
      state.position += step;
      const done = Math.abs(state.position - from) / Math.abs(target - from);
      if (done < 1) progress(Math.round(100 * done), { ...state });
    }
    return applyCommandChange(state, { position: target, movement: 'stopped' });
  };
  const stop = (): JsonObject => {
    latestMovement++;
    return applyChange(state, { position: state.position, movement: 'stopped' });
  };

  return {
    name,
    deviceType: 'window_cover',
    firmware: '1.1.3',
    state,
    commands: {
      open: (_params, context) => moveTo(100, context),
      close: (_params, context) => moveTo(0, context),
      stop: () => ({ state: stop() }),
      set_position: (params, context) => moveTo(requireParam(params, 'position', 'number'), context),
      set_tilt: async (params, { signal }) => {
        const tilt = requireParam(params, 'tilt', 'number');
        await world.pause(TILT_MS, signal);
        return applyCommandChange(state, { tilt });
      },
    },
    heartbeat: () => ({ rssi: -Math.round(58 + world.random() * 9) }),
    tick: () => null, // only commands move it
  };
}
