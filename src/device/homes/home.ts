import { simulateClimate } from './climate.ts';
import { simulateCover } from './cover.ts';
import { simulateLight } from './light.ts';
import { simulateLock } from './lock.ts';
import { simulateSensor } from './sensor.ts';
import type { SimulatedDevice, World } from './simulated.ts';

const kinds = [simulateLight, simulateLock, simulateClimate, simulateSensor, simulateCover] as const;

/** One of each: a light, a lock, a thermostat, a sensor, a cover. */
export function simulatedHome(world: World): SimulatedDevice[] {
  return kinds.map((simulate) => simulate(world));
}

/** The n-th of many devices, the kinds taking turns. */
export function simulatedDevice(world: World, n: number): SimulatedDevice {
  const simulate = kinds[n % kinds.length] as (typeof kinds)[number];
  const device = simulate(world);
  device.name = `${device.name} ${Math.floor(n / kinds.length) + 1}`;
  return device;
}
