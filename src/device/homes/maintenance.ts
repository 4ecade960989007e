import type { JsonObject, Milliseconds } from '../../domain/values.ts';
import type { CommandHandler } from '../command-runner.ts';
import { requireParam, type SimulatedDevice, type SimulationEnvironment } from './simulated-device.ts';

const RESTART_MS: Milliseconds = 1_500;

/** What every device can do: restart, forget its settings, take a new firmware, make itself noticed. */
export function maintenanceCommands(
  device: SimulatedDevice,
  world: SimulationEnvironment,
  { reboot, trustedHosts }: { reboot: () => void; trustedHosts: readonly string[] },
): Record<string, CommandHandler> {
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
      const version = requireParam(params, 'version', 'string');
      const fetched = await world.fetchFirmware({
        url: requireParam(params, 'url', 'string'),
        checksum: requireParam(params, 'checksum', 'string'),
        trustedHosts,
        discard: true,
        signal,
        progress: reportQuarters(progress),
      });
      device.firmware = version;
      rebootSoon(signal);
      return { result: { version, bytes: fetched.bytes } };
    },
  };
}

/** Tells a quarter, a half and three quarters of a download, each once. */
function reportQuarters(progress: (percent: number) => void): (received: number, total: number | null) => void {
  let told = 0;
  return (received, total) => {
    const percent = total === null ? 0 : Math.floor((4 * received) / total) * 25;
    if (percent <= told || percent >= 100) return;
    told = percent;
    progress(percent);
  };
}
