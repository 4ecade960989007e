import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectAsync, type MqttClient } from 'mqtt';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { DeviceIdentity } from '../../src/device/identity.ts';
import { announcedKeys, deviceSigningKeys } from '../../src/main/device-signing-keys.ts';
import { type DeviceChannel, deviceTopic } from '../../src/protocol/topics.ts';
import { eventually, quiet } from '../edges/mqtt/client.ts';
import { EdgeHarness, type OpenMqttEdge } from '../edges/mqtt/edge-harness.ts';

const jwk = () => {
  const { kty, crv, x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' });
  return { private: JSON.stringify({ kty, crv, x, d }), public: JSON.stringify({ kty, crv, x }), x: x as string };
};
const [old, next] = [jwk(), jwk()];

/** The steps of docs/operations.md, "Change the keys". */
const steps = {
  0: { DEVICE_SIGNING_KEY: old.private },
  1: { DEVICE_SIGNING_KEY: old.private, DEVICE_SIGNING_KEY_NEXT: next.public },
  2: { DEVICE_SIGNING_KEY: next.private, DEVICE_SIGNING_KEY_PREVIOUS: old.private },
  '4a': { DEVICE_SIGNING_KEY: next.private, DEVICE_SIGNING_KEY_PREVIOUS: old.public },
  '4b': { DEVICE_SIGNING_KEY: next.private },
} as const satisfies Record<string, Record<string, string>>;
type Step = keyof typeof steps;
/** Each pair of neighbouring steps: nodes that are restarted one after another have the settings of both. */
const neighbours: [Step, Step][] = [
  [0, 1],
  [1, 2],
  [2, '4a'],
  ['4a', '4b'],
];
const moves = neighbours.flatMap(([one, other]): [Step, Step][] => [
  [one, other],
  [other, one],
]);

const service = new EdgeHarness();
const dataDir = mkdtempSync(join(tmpdir(), 'twinkeep-device-keys-'));
const keysAt = (step: Step) => readConfig({ DATA_DIR: dataDir, ...steps[step] }, false).keys;
const edges = new Map<Step, OpenMqttEdge>();

beforeAll(async () => {
  for (const step of Object.keys(steps).map((name) => (/^\d$/.test(name) ? Number(name) : name) as Step)) {
    const { services } = service;
    const settings = { ...services.settings, cloudPublicKeys: announcedKeys(keysAt(step)) };
    const signingKeys = deviceSigningKeys(keysAt(step));
    edges.set(step, await service.open({ services: { ...services, settings }, signingKeys }));
  }
});
afterAll(async () => {
  await Promise.all([...edges.values()].map((edge) => edge.close()));
  rmSync(dataDir, { recursive: true, force: true });
});

/** An Ed25519 device with the rules of the device library. */
class Ed25519Device {
  readonly identity: DeviceIdentity;
  /** The types of the messages that it has verified, and the codes of those that it has not. */
  received: string[] = [];
  #mqtt: MqttClient | null = null;
  #clientId = '';
  #sequence = 0;

  constructor(cloudPublicKeys: readonly string[]) {
    const { secret, ...ids } = service.addDevice(undefined, 'ed25519');
    this.identity = new DeviceIdentity(ids, secret, { signingAlg: 'ed25519', keyVersion: 1, cloudPublicKeys });
  }

  async connect(step: Step): Promise<void> {
    const { clientId, username, password } = this.identity.credentials(service.now);
    const url = `mqtt://127.0.0.1:${edges.get(step)?.port}`;
    const mqtt = await connectAsync(url, { ...quiet, clientId, username, password }, false);
    mqtt.on('message', (_topic, payload) => this.#receive(payload));
    [this.#mqtt, this.#clientId, this.received] = [mqtt, clientId, []];
    await mqtt.subscribeAsync(this.#topic('cmd'), { qos: 1 });
  }

  /** An error, the `hello_ack` and another error. */
  async exchangeMessages(): Promise<void> {
    await this.#send('state', { state: 'no object' });
    await eventually(() => expect(this.received).toHaveLength(1));
    await this.#send('hello', { protocol: 'PROTO/3.1' });
    await eventually(() => expect(this.received).toHaveLength(2));
    await this.#send('state', { state: 'no object' });
    await eventually(() => expect(this.received).toHaveLength(3));
    await this.#mqtt?.endAsync();
  }

  #topic(channel: DeviceChannel | 'cmd'): string {
    return deviceTopic(this.identity.tenantId, this.identity.deviceId, channel);
  }

  async #send(type: DeviceChannel, payload: Parameters<DeviceIdentity['compose']>[0]['payload']): Promise<void> {
    const message = { clientId: this.#clientId, type, payload, sequence: ++this.#sequence };
    await this.#mqtt?.publishAsync(this.#topic(type), this.identity.compose(message, service.now), { qos: 1 });
  }

  #receive(payload: Buffer): void {
    const checked = this.identity.check(payload, this.#clientId, service.now);
    if (!checked.ok) this.received.push(`refused: ${checked.code}`);
    else if (!checked.content.ok) this.received.push('invalid');
    else {
      this.received.push(checked.content.value.type);
      if (checked.content.value.type === 'hello_ack') {
        this.identity.setCloudKeys(checked.content.value.payload.cloud_public_keys);
      }
    }
  }
}

const verified = ['error', 'hello_ack', 'error'];

describe('while nodes are at two neighbouring steps of a change of DEVICE_SIGNING_KEY', () => {
  it.each(moves)(
    'a device that got the keys at step %s verifies every message at step %s, and back',
    async (from, to) => {
      const registered = new Ed25519Device(announcedKeys(keysAt(from)));
      for (const step of [to, from, to] as const) {
        await registered.connect(step);
        await registered.exchangeMessages();
        expect([step, ...registered.received]).toEqual([step, ...verified]);
        expect(registered.identity.cloudPublicKeys).toEqual(announcedKeys(keysAt(step)));
      }
    },
  );

  it('the previous key signs only with its private half', () => {
    expect(deviceSigningKeys(keysAt(2)).previous).not.toBeNull();
    expect(deviceSigningKeys(keysAt('4a')).previous).toBeNull();
    expect([announcedKeys(keysAt('4a')), announcedKeys(keysAt('4b'))]).toEqual([[next.x, old.x], [next.x]]);
  });
});
