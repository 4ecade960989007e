import { connectDevice, type Device, type DeviceOptions } from '../../src/device/device.ts';
import { simulateLight } from '../../src/device/homes/light.ts';
import { simulateLock } from '../../src/device/homes/lock.ts';
import { eventually } from './clock.ts';
import type { ApiClient, ApiResponse } from './service.ts';

export { simulateLight, simulateLock };

/** Registers a device by REST; throws if it is rejected. */
export async function register(
  owner: ApiClient & { homeId: string },
  more: Record<string, unknown> = {},
): Promise<ApiResponse['body']> {
  const answer = await owner.post('/v1/device/register', {
    device_type: 'smart_light',
    home_id: owner.homeId,
    ...more,
  });
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body;
}

/** A device of the device library, signed in as `registered` and online. */
export async function connect(
  registered: ApiResponse['body'],
  options: Partial<DeviceOptions> = {},
  { online = true } = {},
): Promise<Device> {
  const device = await connectDevice({
    mqttUrl: registered.mqtt_url,
    tenantId: registered.tenant_id,
    deviceId: registered.device_id,
    secret: registered.device_secret,
    signingAlg: registered.signing_alg,
    keyVersion: registered.key_version,
    initialSequence: registered.initial_sequence,
    cloudPublicKeys: registered.cloud_public_keys,
    backoff: { minMs: 20, maxMs: 200 },
    ...options,
  });
  if (online) await eventually(() => device.online);
  return device;
}

/** The command from `GET /commands/{id}`, once `check` accepts it. */
export async function waitForCommand(
  caller: ApiClient,
  commandId: string,
  check: (command: ApiResponse['body']) => boolean,
) {
  return eventually(async () => {
    const { body } = await caller.get(`/v1/commands/${commandId}`);
    return check(body.command) ? body.command : null;
  });
}
