import { type Around, Device } from '../edges/mqtt/client.ts';
import type { TestDevice } from '../edges/mqtt/edge-harness.ts';
import type { ApiResponse, TestService } from './service.ts';

/*
 * Devices under the test's control: it composes messages and sessions itself, on the assembled service. The library's
 * devices, which send only valid messages, are in `device.ts`.
 */

/** Device of a registration's response, for the raw clients. */
export const deviceOf = (registered: ApiResponse['body']): TestDevice => ({
  deviceId: registered.device_id,
  tenantId: registered.tenant_id,
  secret: registered.device_secret,
  alg: registered.signing_alg,
  keyVersion: registered.key_version,
});

export const rawClientOptions = ({ clock, services }: Pick<TestService, 'clock' | 'services'>): Around => ({
  get now() {
    return clock.now();
  },
  cloudPublicKey: services.settings.cloudPublicKeys[0] ?? '',
});

export const mqttPortOf = (at: TestService): number => Number(new URL(at.service.mqttUrl() ?? '').port);

/** A signed-in device with a granted `cmd` subscription. */
export async function connectRawDevice(at: TestService, registered: ApiResponse['body'] | TestDevice): Promise<Device> {
  const device = 'device_id' in registered ? deviceOf(registered) : (registered as TestDevice);
  const client = await Device.connect(rawClientOptions(at), device, mqttPortOf(at));
  await client.listen();
  return client;
}

/** Value of a counter in `/metrics`; 0 if it is absent. */
export async function readCounter(at: TestService, name: string, label = ''): Promise<number> {
  const { body } = await at.api().get('/metrics');
  const line = String(body)
    .split('\n')
    .find((text) => text.startsWith(`twinkeep_${name}`) && text.includes(label));
  return line === undefined ? 0 : Number(line.slice(line.lastIndexOf(' ')));
}
