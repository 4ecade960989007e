import { type RunningDevice, startSimulatedDevice } from '../device/homes/running-device.ts';
import type { SimulatedDevice, SimulationEnvironment } from '../device/homes/simulated-device.ts';
import type { Milliseconds } from '../domain/values.ts';
import type { SigningAlg } from '../protocol/signature.ts';
import type { Api } from './api.ts';

/** The answer to a registration. */
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

/** A simulated device that the service knows; it is not connected yet. */
export interface RegisteredDevice {
  simulated: SimulatedDevice;
  registration: Registration;
}

/** Registers a simulated device through REST; waits where the service asks for it. */
export async function registerDevice(
  api: Api,
  simulated: SimulatedDevice,
  place: { homeId: string; roomId?: string; alg?: SigningAlg },
): Promise<RegisteredDevice> {
  const { homeId, roomId, alg } = place;
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

/** Signs the device in over MQTT and lets it live. */
export function startDevice(
  { simulated, registration }: RegisteredDevice,
  world: SimulationEnvironment,
  tickMs: Milliseconds,
): Promise<RunningDevice> {
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
    },
    tickMs,
  );
}

/** Takes a device out of the service again. */
export async function removeDevice(api: Api, { registration }: RegisteredDevice): Promise<void> {
  await api.request('POST', `/v1/device/${registration.device_id}/revoke`, { retryWhenBusy: true });
  await api.request('DELETE', `/v1/devices/${registration.device_id}`, { retryWhenBusy: true });
}

/** Does `work` for every item, `width` at a time, and stops at the first that fails or once `stop` says so. */
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
  const ends = await Promise.allSettled(Array.from({ length: Math.min(width, items.length) }, worker));
  const broken = ends.find((end) => end.status === 'rejected');
  if (broken !== undefined) throw broken.reason;
}
