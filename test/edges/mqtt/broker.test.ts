import { describe, expect, it } from 'vitest';
import { eventually, packets, Raw } from './client.ts';
import { device, edge, open, openEdge, service, withEdge } from './edge-fixture.ts';

withEdge();

describe('a protocol violation closes the connection without an acknowledgement:', () => {
  const other = '0190b4f3-0000-7000-8000-000000000000';
  const topics: [string, (own: string) => string][] = [
    ['its own cmd', (own) => `${own}/cmd`],
    ['another channel', (own) => `${own}/firmware`],
    ['a level more', (own) => `${own}/state/x`],
    ['a level less', (own) => own],
    ['another device', (own) => `${own.slice(0, -36)}${other}/state`],
    ['another tenant', (own) => `${own.replace(/proto\/[^/]+/, `proto/${other}`)}/state`],
    ['$SYS', () => '$SYS/broker/heartbeat'],
    ['a wildcard', (own) => `${own}/+`],
    ['an empty topic', () => ''],
    ['many levels', (own) => `${own}/${'a/'.repeat(200)}`],
    ['NUL in a topic', (own) => `${own}/state\0`],
    ['a control character', (own) => `${own}/sta\u0001te`],
  ];

  it.each(topics)('a message on %s', async (_name, topicOf) => {
    await openEdge();
    const { raw } = await Raw.signedIn(service, device, edge.port);
    const topic = topicOf(`proto/${device.tenantId}/device/${device.deviceId}`);
    raw.socket.write(packets.publish(topic, '{}'));
    await raw.closed();
    expect(raw.bytes.length).toBe(0);
    expect(service.received).toEqual([]);
  });

  it.each(topics)('a message on %s, after one on its own topic', async (_name, topicOf) => {
    await openEdge();
    const { raw } = await Raw.signedIn(service, device, edge.port);
    const own = `proto/${device.tenantId}/device/${device.deviceId}`;
    raw.socket.write(
      Buffer.concat([`${own}/state`, topicOf(own)].map((topic) => packets.publish(topic, '{}', { qos: 0 }))),
    );
    await raw.closed();
    expect(service.counted).toMatchObject({ 'refused MALFORMED': 1, 'closed forbidden': 1 });
    expect(service.received).toEqual([]);
  });

  it('a message in QoS 2, a retained one, and a topic in malformed UTF-8', async () => {
    await openEdge();
    const topic = `proto/${device.tenantId}/device/${device.deviceId}/state`;
    const broken = Buffer.concat([Buffer.from(topic), Buffer.from([0xc3])]);
    for (const bytes of [
      packets.publish(topic, '{}', { qos: 2 }),
      packets.publish(topic, '{}', { retain: true }),
      packets.publish(topic, '{}', { qos: 3 }),
      packets.publish(broken, '{}'),
      Buffer.from([0x62, 2, 0, 1]), // PUBREL
      Buffer.from([0x20, 2, 0, 0]), // CONNACK
      Buffer.from([0xf0, 0]), // AUTH, of MQTT 5
      Buffer.from([0x82, 0]), // SUBSCRIBE without anything
    ]) {
      service.now += 1;
      const { raw } = await Raw.signedIn(service, device, edge.port);
      raw.socket.write(bytes);
      await raw.closed();
      expect(raw.bytes.length).toBe(0);
    }
    expect(service.received).toEqual([]);
  });

  it('a packet over 64 KiB, before it is read', async () => {
    await openEdge();
    const { raw } = await Raw.signedIn(service, device, edge.port);
    raw.socket.write(Buffer.from([0x32, 0xfe, 0xff, 0x03])); // 65,534 bytes and 4 of header
    await raw.closed();
    expect(service.counted['closed oversized']).toBe(1);
  });

  it('but a packet of exactly 64 KiB is only refused for its content', async () => {
    await openEdge();
    const { raw } = await Raw.signedIn(service, device, edge.port);
    const topic = `proto/${device.tenantId}/device/${device.deviceId}/state`;
    const bytes = packets.publish(topic, 'x'.repeat(65_536 - 4 - 2 - topic.length - 2));
    expect(bytes.length).toBe(65_536);
    raw.socket.write(bytes);
    await eventually(() => expect([...raw.bytes]).toEqual([0x40, 2, 0, 1]));
    expect(service.counted['refused MALFORMED']).toBe(1);
    raw.socket.destroy();
  });

  it('earlier messages are committed nevertheless', async () => {
    const client = await open();
    void client.send('state', { state: {} }).catch(() => {});
    void client.mqtt.publishAsync('elsewhere', 'x', { qos: 1 }).catch(() => {});
    await client.closed();
    expect(service.events('state.reported')).toHaveLength(1);
    expect(service.counted['closed forbidden']).toBe(1);
  });
});
