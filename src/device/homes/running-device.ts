import type { Milliseconds } from '../../domain/values.ts';
import { connectDevice, type Device, type DeviceOptions } from '../device.ts';
import { maintenanceCommands } from './maintenance.ts';
import type { SimulatedDevice, SimulationEnvironment } from './simulated-device.ts';

export interface RunningDevice {
  device: Device;
  stop(): Promise<void>;
}

/** The result of a registration, and what the device was built with. */
type BuiltDevice = Omit<DeviceOptions, 'state' | 'commands' | 'heartbeat' | 'firmware' | 'deviceType'> & {
  /** Public keys that firmware must be signed with. Default: unsigned firmware is installed. */
  firmwareKeys?: readonly string[];
};

/** Connects a simulated device and calls its `tick` every `tickMs` (default 5 s). */
export async function startSimulatedDevice(
  simulated: SimulatedDevice,
  world: SimulationEnvironment,
  { firmwareKeys, ...registration }: BuiltDevice,
  tickMs: Milliseconds = 5_000,
): Promise<RunningDevice> {
  const { deviceType, heartbeat } = simulated;
  // The host of the service may resolve to a private address.
  const trustedHosts = [new URL(registration.mqttUrl).hostname];
  const device: Device = await connectDevice({
    clock: world.clock,
    ...registration,
    firmware: () => simulated.firmware,
    deviceType,
    state: structuredClone(simulated.state),
    commands: {
      ...maintenanceCommands(simulated, world, {
        reboot: () => device.reconnect('reboot'),
        trustedHosts,
        firmwareKeys,
      }),
      ...simulated.commands,
    },
    ...(heartbeat === undefined ? {} : { heartbeat }),
  });
  let lastTick = world.clock.now();
  const timer = setInterval(() => {
    const now = world.clock.now();
    const changed = simulated.tick((now - lastTick) / 1_000);
    lastTick = now;
    if (changed !== null && Object.keys(changed).length > 0) void device.report(changed);
  }, tickMs);
  return {
    device,
    stop: () => {
      clearInterval(timer);
      return device.close();
    },
  };
}
