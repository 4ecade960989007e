import { type Around, Device } from '../edges/mqtt/client.ts';
import type { TestDevice } from '../edges/mqtt/edge-harness.ts';
import type { ApiResponse, TestService } from './service.ts';

/*
 * Devices that say what they want: the message by hand and the session by hand, on the assembled service. The library's
 * devices, who only say what is right, are in `device.ts`.
 */

/** A registration's answer as the handmade clients take it. */
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

/** Signed in, with its `cmd` subscription granted. */
export async function connectRawDevice(at: TestService, registered: ApiResponse['body'] | TestDevice): Promise<Device> {
  const device = 'device_id' in registered ? deviceOf(registered) : (registered as TestDevice);
  const speaker = await Device.connect(rawClientOptions(at), device, mqttPortOf(at));
  await speaker.listen();
  return speaker;
}

/** A counter of `/metrics`, 0 where it counted nothing yet. */
export async function readCounter(at: TestService, name: string, label = ''): Promise<number> {
  const { body } = await at.api().get('/metrics');
  const line = String(body)
    .split('\n')
    .find((text) => text.startsWith(`twinkeep_${name}`) && text.includes(label));
  return line === undefined ? 0 : Number(line.slice(line.lastIndexOf(' ')));
}
