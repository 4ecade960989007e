import type { RunningDevice } from '../device/homes/running-device.ts';
import type { SimulatedDevice, SimulationEnvironment } from '../device/homes/simulated-device.ts';
import { createHomeDevice } from '../device/homes/simulated-home.ts';
import type { SigningAlg } from '../domain/device-key.ts';
import type { Milliseconds } from '../domain/values.ts';
import type { Api } from './api.ts';

/** Response to a device registration. */
export interface Registration {
  device_id: string;
  tenant_id: string;
  device_secret: string;
  key_version: number;
  signing_alg: SigningAlg;
  initial_sequence: number;
  mqtt_url: string;
  cloud_public_keys: string[];
}

/** A simulated device that is registered but not connected yet. */
export interface RegisteredDevice {
  simulated: SimulatedDevice;
  registration: Registration;
}

/** Registers a simulated device over REST; retries when the service is busy. */
export async function registerSimulatedDevice(
  api: Api,
  simulated: SimulatedDevice,
  options: { homeId: string; roomId?: string; alg?: SigningAlg },
): Promise<RegisteredDevice> {
  const { homeId, roomId, alg } = options;
  const { body } = await api.request<Registration>('POST', '/v1/device/register', {
    retryWhenBusy: true,
    body: {
      device_type: simulated.deviceType,
      name: simulated.name,
      home_id: homeId,
      ...(roomId !== undefined && { room_id: roomId }),
      ...(alg !== undefined && { signing_alg: alg }),
    },
  });
  return { simulated, registration: body };
}

/** Connects the device over MQTT and starts its simulation. With `firmwareKeys` it installs only firmware that one of them has signed. */
export async function startDevice(
  { simulated, registration }: RegisteredDevice,
  world: SimulationEnvironment,
  tickMs: Milliseconds,
  firmwareKeys?: readonly string[],
): Promise<RunningDevice> {
  // With it an MQTT client is loaded, which no other command needs.
  const { startSimulatedDevice } = await import('../device/homes/running-device.ts');
  return startSimulatedDevice(
    simulated,
    world,
    {
      mqttUrl: registration.mqtt_url,
      tenantId: registration.tenant_id,
      deviceId: registration.device_id,
      secret: registration.device_secret,
      signingAlg: registration.signing_alg,
      keyVersion: registration.key_version,
      cloudPublicKeys: registration.cloud_public_keys,
      initialSequence: registration.initial_sequence,
      ...(firmwareKeys && { firmwareKeys }),
    },
    tickMs,
  );
}

/** Reports of one request of an import. */
const IMPORTED_AT_ONCE = 1_000;
/** Imported reports are at least so much older than the registration. */
const IMPORT_GAP_MS: Milliseconds = 600_000;

/** Simulates the past of a device, of the kind of the `n`-th one, and imports it into its history. Returns the number of reports. */
export async function importPast(
  api: Api,
  { registration, simulated }: RegisteredDevice,
  { n, pastMs, random }: { n: number; pastMs: Milliseconds; random: () => number },
): Promise<number> {
  const path = `/v1/devices/${registration.device_id}`;
  const options = { retryWhenBusy: true, idempotent: true };
  const { device } = (await api.request<{ device: { created_at: string } }>('GET', path, options)).body;
  const to = Date.parse(device.created_at) - IMPORT_GAP_MS;
  const { simulatePast, stateAfter } = await import('../device/homes/past.ts');
  const past = await simulatePast({ from: to - pastMs, to, random, create: (world) => createHomeDevice(world, n) });
  for (let start = 0; start < past.length; start += IMPORTED_AT_ONCE) {
    const reports = past
      .slice(start, start + IMPORTED_AT_ONCE)
      .map(({ at, state }) => ({ at: new Date(at).toISOString(), state }));
    await api.request('POST', `${path}/history`, { retryWhenBusy: true, body: { reports } });
  }
  simulated.continueFrom?.(stateAfter(past));
  return past.length;
}

/** Revokes and deletes a device. */
export async function removeDevice(api: Api, { registration }: RegisteredDevice): Promise<void> {
  await api.request('POST', `/v1/device/${registration.device_id}/revoke`, { retryWhenBusy: true });
  await api.request('DELETE', `/v1/devices/${registration.device_id}`, { retryWhenBusy: true });
}

/** Runs `work` for each item, `width` at a time, until one fails or `stop` returns true. */
export async function runInParallel<T>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<void>,
  stop: () => boolean = () => false,
): Promise<void> {
  let next = 0;
  let failed = false;
  const worker = async () => {
    while (next < items.length && !failed && !stop()) {
      const item = items[next++] as T;
      try {
        await work(item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const results = await Promise.allSettled(Array.from({ length: Math.min(width, items.length) }, worker));
  const rejected = results.find((result) => result.status === 'rejected');
  if (rejected !== undefined) throw rejected.reason;
}
