import { simulateClimate } from './climate.ts';
import { simulateCover } from './cover.ts';
import { simulateLight } from './light.ts';
import { simulateLock } from './lock.ts';
import { simulateSensor } from './sensor.ts';
import type { SimulatedDevice, SimulationEnvironment } from './simulated-device.ts';

const deviceFactories = [simulateLight, simulateLock, simulateClimate, simulateSensor, simulateCover] as const;

/** One device of each kind: a light, a lock, a thermostat, a sensor and a cover. */
export function createSimulatedHome(world: SimulationEnvironment): SimulatedDevice[] {
  return deviceFactories.map((simulate) => simulate(world));
}

/** The n-th device of the home in another environment. */
export const createHomeDevice = (world: SimulationEnvironment, n: number): SimulatedDevice =>
  (deviceFactories[n % deviceFactories.length] as (typeof deviceFactories)[number])(world);

/** The n-th device of a simulation; the kinds alternate. */
export function createSimulatedDevice(world: SimulationEnvironment, n: number): SimulatedDevice {
  const device = createHomeDevice(world, n);
  device.name = `${device.name} ${Math.floor(n / deviceFactories.length) + 1}`;
  return device;
}
