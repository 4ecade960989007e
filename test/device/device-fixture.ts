import { afterEach, beforeEach, expect, inject, vi } from 'vitest';
import { connectDevice, type Device, type DeviceOptions } from '../../src/device/device.ts';
import { SmallCloud } from './fake-cloud.ts';

export let cloud: SmallCloud;
export let devices: Device[] = [];

/** Starts a `cloud` before each test of the file; stops it and the started devices afterwards. */
export function withSmallCloud(): void {
  beforeEach(async () => {
    cloud = await SmallCloud.start();
  });
  afterEach(async () => {
    await Promise.all(devices.map((device) => device.close(0)));
    devices = [];
    await cloud.stop();
  });
}

export async function start(options: Partial<DeviceOptions> = {}): Promise<Device> {
  const backoff = { minMs: 5, maxMs: 20 };
  const device = await connectDevice({ ...cloud.registration(), backoff, ...options });
  devices.push(device);
  return device;
}

export async function startOnline(options: Partial<DeviceOptions> = {}): Promise<Device> {
  const device = await start(options);
  await until(() => expect(device.online).toBe(true));
  return device;
}

export const until = (assertion: () => void) => vi.waitFor(assertion, { timeout: inject('pollMs'), interval: 5 });
