import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { MqttEdge } from '../../../src/edges/mqtt/edge.ts';
import { cloudPublicKey, newDeviceSecret, signingKey } from '../../../src/protocol/signature.ts';
import { Device, eventually } from './client.ts';
import { EdgeHarness } from './edge-harness.ts';

describe('after a change of the key that signs for Ed25519 devices', () => {
  const previous = signingKey('ed25519', newDeviceSecret());
  let service: EdgeHarness;
  let edge: MqttEdge;

  beforeEach(async () => {
    service = new EdgeHarness();
    service.previousCloudKey = previous;
    edge = await service.open();
  });
  afterEach(() => edge.close());

  /** The key of the service with which the client verifies messages; it fails the test for any other. */
  let known: string;

  const connectKnowing = async (publicKey: string, alg: 'ed25519' | 'hmac-sha256' = 'ed25519') => {
    known = publicKey;
    const around = {
      get now() {
        return service.now;
      },
      get cloudPublicKey() {
        return known;
      },
    };
    const client = await Device.connect(around, service.addDevice(undefined, alg), edge.port as number);
    await client.listen();
    return client;
  };

  it('a device that knows only the previous key can verify the hello_ack, which announces the current one', async () => {
    const client = await connectKnowing(cloudPublicKey(previous));
    await client.send('hello', { protocol: 'PROTO/3.1' });
    await eventually(() => expect(client.received).toMatchObject([{ type: 'hello_ack' }]));
    await client.mqtt.endAsync();
  });

  it('errors before the hello are signed with the previous key, and messages after it with the current one', async () => {
    const before = await connectKnowing(cloudPublicKey(previous));
    await before.send('state', { state: 'no object' });
    await eventually(() => expect(before.received).toMatchObject([{ type: 'error' }]));
    await before.mqtt.endAsync();

    const after = await connectKnowing(cloudPublicKey(previous));
    await after.send('hello', { protocol: 'PROTO/3.1' });
    await eventually(() => expect(after.received).toMatchObject([{ type: 'hello_ack' }]));
    known = service.cloudPublicKey;
    await after.send('state', { state: 'no object' });
    await eventually(() => expect(after.received).toMatchObject([{ type: 'hello_ack' }, { type: 'error' }]));
    await after.mqtt.endAsync();
  });

  it('an HMAC device is not affected', async () => {
    const client = await connectKnowing('', 'hmac-sha256');
    await client.send('hello', { protocol: 'PROTO/3.1' });
    await client.send('state', { state: 'no object' });
    await eventually(() => expect(client.received).toMatchObject([{ type: 'hello_ack' }, { type: 'error' }]));
    await client.mqtt.endAsync();
  });
});
