import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newDeviceSecret, signingKey } from '../../../src/protocol/signature.ts';
import { Device, eventually } from './client.ts';
import { EdgeHarness, type OpenMqttEdge, type TestDevice } from './edge-harness.ts';

let service: EdgeHarness;
let edge: OpenMqttEdge;
let device: TestDevice;
let client: Device;

beforeEach(async () => {
  service = new EdgeHarness();
  device = service.addDevice();
  edge = await service.open();
  client = await Device.connect(service, device, edge.port);
});
afterEach(() => edge.close());

const codes = () => client.received.map(({ payload }) => (payload as { code?: string }).code);

describe('a refused message', () => {
  it('is acknowledged, counted, and reported on cmd with its id', async () => {
    await client.listen();
    const messageId = randomUUID();
    await client.send('state', { state: {} }, { messageId, timestamp: service.now - 300_001 });
    await eventually(() => expect(client.received).toHaveLength(1));
    expect(client.received[0]).toMatchObject({
      type: 'error',
      payload: { code: 'TIMESTAMP_SKEWED', message_id: messageId },
      requestId: messageId,
      sequence: 1,
    });
    expect(service.received).toEqual([]);
    expect(service.counted['refused TIMESTAMP_SKEWED']).toBe(1);
    expect(service.refusals).toBe(1);
  });

  it('is reported with each code, in the order of the checks', async () => {
    await client.listen();
    const other = service.addDevice();
    await client.send('state', { state: {} }, { type: 'heartbeat' });
    await client.send('state', { state: {} }, { deviceId: other.deviceId, clientId: 'x' });
    await client.send('state', { state: {} }, { tenantId: other.tenantId });
    await client.send('state', { state: {} }, { clientId: 'x', timestamp: 1 });
    await client.send('state', { state: {} }, { timestamp: 1, keyVersion: 2 });
    await client.send('state', { state: {} }, { keyVersion: 2 });
    await client.send('state', {}, { sequence: 1 });
    await client.send('state', {}, { sequence: 1 });
    await client.send('cmd_ack', { command_id: randomUUID(), status: 'accepted' }, { sequence: 200 });
    await client.send('state', { state: {} }, { sequence: 136 });
    await client.send('hello', { protocol: 'PROTO/2' });
    await eventually(() => expect(client.received).toHaveLength(11));
    expect(codes()).toEqual([
      'TYPE_MISMATCH',
      'IDENTITY_MISMATCH',
      'IDENTITY_MISMATCH',
      'SESSION_MISMATCH',
      'TIMESTAMP_SKEWED',
      'SIGNATURE_INVALID',
      'PAYLOAD_INVALID',
      'SEQUENCE_REUSED',
      'UNKNOWN_COMMAND',
      'SEQUENCE_TOO_OLD',
      'PAYLOAD_INVALID',
    ]);
    expect(client.received.map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  });

  it('uses its sequence number if only its payload was invalid, and not otherwise', async () => {
    await client.send('state', { state: {} }, { sequence: 1, timestamp: 1 });
    await client.send('state', { state: {} }, { sequence: 1 });
    await client.send('state', { state: 1 }, { sequence: 2 });
    await client.send('state', { state: {} }, { sequence: 2 });
    expect(service.counted).toMatchObject({
      'refused TIMESTAMP_SKEWED': 1,
      'refused PAYLOAD_INVALID': 1,
      'refused SEQUENCE_REUSED': 1,
    });
    expect(service.events('message.rejected')).toMatchObject([{ code: 'PAYLOAD_INVALID' }]);
  });

  it('without a valid signature is not reported', async () => {
    await client.listen();
    await client.send('state', { state: {} }, { key: signingKey('hmac-sha256', newDeviceSecret()) });
    await client.mqtt.publishAsync(client.topic('state'), '{"version": 1}', { qos: 1 });
    await client.mqtt.publishAsync(client.topic('state'), Buffer.from([0x7b, 0xff]), { qos: 1 });
    await client.mqtt.publishAsync(client.topic('state'), '', { qos: 1 });
    await client.send('heartbeat', {});
    expect(client.received).toEqual([]);
    expect(service.counted).toMatchObject({ 'refused SIGNATURE_INVALID': 1, 'refused MALFORMED': 3 });
  });

  it('with repeated keys, NUL or too deep nesting is malformed, and reported because it was signed', async () => {
    await client.listen();
    const good = client.compose('state', { state: {} });
    const send = (text: string) => client.mqtt.publishAsync(client.topic('state'), text, { qos: 1 });
    await send(good.replace('"payload":', '"payload":{},"payload":'));
    await send(client.compose('state', { state: { a: '\0' } }));
    await send(good.replace('{"state":{}}', `{"state":${'['.repeat(31)}${']'.repeat(31)}}`));
    await eventually(() => expect(codes()).toEqual(['MALFORMED', 'MALFORMED', 'MALFORMED']));
  });

  it('that is the twentieth in a minute is acknowledged, reported, and ends the session', async () => {
    await client.listen();
    for (let n = 0; n < 19; n++) await client.send('state', {});
    service.now += 60_000;
    for (let n = 0; n < 19; n++) await client.send('state', {});
    expect(client.mqtt.connected).toBe(true);
    await client.send('state', {});
    await client.closed();
    expect(client.received).toHaveLength(39);
    expect(service.counted['closed refusals']).toBe(1);
    expect(service.live.size).toBe(0);
  });

  it('without a signature ends the session too', async () => {
    const sent = Array.from({ length: 25 }, () =>
      client.mqtt.publishAsync(client.topic('state'), '{}', { qos: 1 }).catch(() => {}),
    );
    await client.closed();
    client.mqtt.end(true);
    await Promise.all(sent);
    expect(service.counted['closed refusals']).toBe(1);
  });
});

describe('before the cmd subscription is granted', () => {
  it('the last hello_ack and eight errors are kept, and written afterwards', async () => {
    for (let n = 0; n < 10; n++) await client.send('state', {});
    await client.send('hello', { protocol: 'PROTO/3.1' });
    const messageId = randomUUID();
    await client.send('hello', { protocol: 'PROTO/3.1' }, { messageId });
    expect(client.received).toEqual([]);
    service.now += 1_000;
    await client.listen();
    await eventually(() => expect(client.received).toHaveLength(9));
    expect(client.received[0]).toMatchObject({
      type: 'hello_ack',
      requestId: messageId,
      payload: {
        server_time: service.now - 1_000,
        last_sequence: 10,
        heartbeat_s: 60,
        key_version: 1,
        cloud_public_keys: ['cloud-key'],
      },
    });
    expect(codes().slice(1)).toEqual(Array.from({ length: 8 }, () => 'PAYLOAD_INVALID'));
    await client.listen();
    await client.send('heartbeat', {});
    expect(client.received).toHaveLength(9);
  });

  it('and after it they are written at once', async () => {
    await client.listen();
    await client.send('hello', { protocol: 'PROTO/3.1' });
    await eventually(() => expect(client.received).toMatchObject([{ type: 'hello_ack', qos: 1 }]));
  });
});
