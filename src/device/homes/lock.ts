import type { HandlerContext } from '../command-runner.ts';
import {
  applyChange,
  applyCommandChange,
  requireParam,
  roundTo,
  type SimulatedDevice,
  type SimulationEnvironment,
} from './simulated-device.ts';

type LockState = {
  locked: boolean;
  door_open: boolean;
  battery: number;
  /** Seconds; 0 disables it. */
  auto_lock_s: number;
  privacy_mode: boolean;
};

const MOTOR_MS = 600;
const BATTERY_PER_TURN = 0.01;
/** Average openings of an unlocked door. */
const DOOR_OPENINGS_PER_HOUR = 4;
const DOOR_OPEN_S = 12;

export function simulateLock(world: SimulationEnvironment, name = 'Front door'): SimulatedDevice {
  const state: LockState = { locked: true, door_open: false, battery: 87, auto_lock_s: 0, privacy_mode: false };
  let battery = state.battery;
  let unlockedForS = 0;
  let openForS = 0;

  const turnMotor = async (locked: boolean, { signal }: HandlerContext) => {
    if (locked && state.door_open) throw new Error('the door is open');
    if (state.locked !== locked) {
      await world.pause(MOTOR_MS, signal);
      battery = Math.max(0, battery - BATTERY_PER_TURN);
    }
    unlockedForS = 0;
    return applyCommandChange(state, { locked, battery: roundTo(battery, 0) });
  };

  return {
    name,
    deviceType: 'door_lock',
    firmware: '2.0.7',
    state,
    commands: {
      lock: (_params, context) => turnMotor(true, context),
      unlock: (_params, context) => turnMotor(false, context),
      unlatch: async (_params, context) => {
        const turned = await turnMotor(false, context);
        openForS = 0;
        return { state: { ...turned.state, ...applyChange(state, { door_open: true }) } };
      },
      set_auto_lock: (params) => applyCommandChange(state, { auto_lock_s: requireParam(params, 'seconds', 'number') }),
      set_privacy_mode: (params) =>
        applyCommandChange(state, { privacy_mode: requireParam(params, 'enabled', 'boolean') }),
    },
    manualActions: {
      hold_open: () => {
        openForS = Number.NEGATIVE_INFINITY; // until `shut`
        return applyChange(state, { door_open: true });
      },
      shut: () => applyChange(state, { door_open: false }),
    },
    heartbeat: () => ({ battery: state.battery, rssi: -Math.round(60 + world.random() * 10) }),
    tick: (elapsedS) => {
      if (state.door_open) {
        openForS += elapsedS;
        return openForS >= DOOR_OPEN_S ? applyChange(state, { door_open: false }) : null;
      }
      if (state.locked) return null;
      unlockedForS += elapsedS;
      if (state.auto_lock_s > 0 && unlockedForS >= state.auto_lock_s) return applyChange(state, { locked: true });
      if (world.random() >= (DOOR_OPENINGS_PER_HOUR * elapsedS) / 3_600) return null;
      openForS = 0;
      return applyChange(state, { door_open: true });
    },
  };
}
