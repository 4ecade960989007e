import type { JsonObject, Milliseconds } from '../../domain/values.ts';
import type { CommandHandler } from '../commands.ts';
import type { SimulatedDevice, World } from './simulated.ts';

const RESTART_MS: Milliseconds = 1_500;
const DOWNLOAD_STEP_MS: Milliseconds = 400;

/** What every device can do: restart, forget its settings, take a new firmware, make itself noticed. */
export function maintenance(device: SimulatedDevice, world: World, reboot: () => void): Record<string, CommandHandler> {
  const delivered = structuredClone(device.state);
  const rebootSoon = (signal: AbortSignal) => {
    world.pause(RESTART_MS, signal).then(reboot, () => {}); // after the acknowledgement; a closed device needs none
  };
  return {
    identify: async (_params, { signal }) => {
      await world.pause(1_000, signal);
      return undefined;
    },
    reboot: (_params, { signal }) => {
      rebootSoon(signal);
      return undefined;
    },
    factory_reset: () => {
      const gone = Object.keys(device.state).filter((name) => !Object.hasOwn(delivered, name));
      for (const name of gone) delete device.state[name];
      Object.assign(device.state, structuredClone(delivered));
      const patch: JsonObject = structuredClone(delivered);
      for (const name of gone) patch[name] = null;
      return { state: patch };
    },
    update_firmware: async (params, { progress, signal }) => {
      const version = params.version ?? params.firmware_id ?? null;
      if (version === null) throw new Error('which firmware is not said');
      for (const percent of [25, 50, 75]) {
        await world.pause(DOWNLOAD_STEP_MS, signal);
        progress(percent);
      }
      if (typeof version === 'string') device.firmware = version;
      rebootSoon(signal);
      return { result: { version } };
    },
  };
}
