import type { JsonObject, Milliseconds } from '../../domain/values.ts';
import type { CommandHandler } from '../command-runner.ts';
import { requireParam, type SimulatedDevice, type SimulationEnvironment } from './simulated-device.ts';

const RESTART_MS: Milliseconds = 1_500;

interface MaintenanceOptions {
  reboot: () => void;
  trustedHosts: readonly string[];
  /** Public keys that firmware must be signed with; undefined: the checksum suffices. */
  firmwareKeys?: readonly string[] | undefined;
}

/** Commands that every simulated device supports: identify, reboot, factory reset and firmware update. */
export function maintenanceCommands(
  device: SimulatedDevice,
  world: SimulationEnvironment,
  { reboot, trustedHosts, firmwareKeys }: MaintenanceOptions,
): Record<string, CommandHandler> {
  const factoryState = structuredClone(device.state);
  const rebootSoon = (signal: AbortSignal) => {
    world.pause(RESTART_MS, signal).then(reboot, () => {}); // after the acknowledgement; cancelled on close
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
      const added = Object.keys(device.state).filter((name) => !Object.hasOwn(factoryState, name));
      for (const name of added) delete device.state[name];
      Object.assign(device.state, structuredClone(factoryState));
      const patch: JsonObject = structuredClone(factoryState);
      for (const name of added) patch[name] = null;
      return { state: patch };
    },
    update_firmware: async (params, { progress, signal }) => {
      const version = requireParam(params, 'version', 'string');
      const fetched = await world.fetchFirmware({
        url: requireParam(params, 'url', 'string'),
        checksum: requireParam(params, 'checksum', 'string'),
        ...(firmwareKeys && { signed: { publicKeys: firmwareKeys, deviceType: device.deviceType, params } }),
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

/** Reports 25, 50 and 75 % of a download, each once. */
function reportQuarters(progress: (percent: number) => void): (received: number, total: number | null) => void {
  let reported = 0;
  return (received, total) => {
    const percent = total === null ? 0 : Math.floor((4 * received) / total) * 25;
    if (percent <= reported || percent >= 100) return;
    reported = percent;
    progress(percent);
  };
}
