import { describe, expect, it } from 'vitest';
import { areFiltersValid, checkConnect } from '../../../src/edges/mqtt/packet-checks.ts';
import { eventually, packet, packets, Raw } from './client.ts';
import { EdgeHarness } from './edge-harness.ts';

const field = (value: string | Buffer): Buffer => {
  const bytes = Buffer.from(value);
  return Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 0xff]), bytes]);
};
const NUL = Buffer.from('a\0b');
const BROKEN = Buffer.from([0x61, 0xc3]);
const SURROGATE = Buffer.from([0xed, 0xa0, 0x80]);

describe('a CONNECT', () => {
  const body = (level: number, flags: number, ...fields: Buffer[]) =>
    Buffer.concat([field('MQTT'), Buffer.from([level, flags, 0, 60]), ...fields]);

  it.each([
    ['with an empty client identifier', body(4, 0x02, field('')), 'valid'],
    ['with user name and password', body(4, 0xc2, field('c'), field('u'), field(Buffer.from([0, 0xff]))), 'valid'],
    ['with a will', body(4, 0x06, field('c'), field('topic'), field(NUL)), 'valid'],
    ['of level 3', body(3, 0x02, field('c')), 'version'],
    ['of level 5', body(5, 0x02, Buffer.from([0]), field('c')), 'version'],
    ['of level 6', body(6, 0x02, field('c')), 'version'],
    ['with excess bytes', body(4, 0x02, field('c'), Buffer.from([0])), 'malformed'],
    ['without its password', body(4, 0xc2, field('c'), field('u')), 'malformed'],
    ['with U+0000 in its client identifier', body(4, 0x02, field(NUL)), 'malformed'],
    ['with broken UTF-8 in its user name', body(4, 0x82, field('c'), field(BROKEN)), 'malformed'],
    ['with a surrogate in its client identifier', body(4, 0x02, field(SURROGATE)), 'malformed'],
    ['of another protocol', Buffer.concat([field('HTTP'), Buffer.from([4, 2, 0, 0])]), 'malformed'],
    ['without anything', Buffer.alloc(0), 'malformed'],
  ] as const)('%s is %s', (_, packet, result) => {
    expect(checkConnect(packet)).toBe(result);
  });
});

describe('topic filters', () => {
  const id = (value: number) => Buffer.from([value >> 8, value & 0xff]);
  const qos = Buffer.from([1]);

  it.each([
    ['one filter', [id(1), field('a/b'), qos], true],
    ['two filters', [id(1), field('a/#'), qos, field('+'), qos], true],
    ['packet identifier 0', [id(0), field('a'), qos], false],
    ['no filter', [id(1)], false],
    ['no packet identifier', [], false],
    ['U+0000', [id(1), field(NUL), qos], false],
    ['broken UTF-8', [id(1), field(BROKEN), qos], false],
    ['no QoS', [id(1), field('a')], false],
    ['a truncated filter', [id(1), Buffer.from([0, 9, 97])], false],
  ] as const)('of a SUBSCRIBE with %s', (_, parts, valid) => {
    expect(areFiltersValid(Buffer.concat(parts), { withQos: true })).toBe(valid);
  });

  it('of an UNSUBSCRIBE have no QoS', () => {
    expect(areFiltersValid(Buffer.concat([id(1), field('a'), field('b')]), { withQos: false })).toBe(true);
  });
});

describe('the broker', () => {
  it('answers a CONNECT of another level with return code 1, and closes', async () => {
    const service = new EdgeHarness();
    const edge = await service.open();
    for (const version of [2, 3, 5, 6]) {
      const raw = await Raw.open(edge.port);
      raw.socket.write(packets.connect({ clientId: 'c', version }));
      await raw.closed();
      expect([...raw.bytes]).toEqual([0x20, 2, 0, 1]);
    }
    await edge.close();
  });

  it('closes a signed-in connection that violates the protocol, without an answer', async () => {
    const service = new EdgeHarness();
    const edge = await service.open();
    const id = Buffer.from([0, 1]);
    const violations = [
      packet(0x82, Buffer.from([0, 0]), field('a'), Buffer.from([0])),
      packet(0x82, id, field(NUL), Buffer.from([0])),
      packet(0xa2, Buffer.from([0, 0]), field('a')),
      packet(0xa2, id, field(BROKEN)),
      packet(0xa2, id),
      packet(0x38, field('a'), Buffer.from('x')),
      packet(0xc0, Buffer.from([0])),
      packet(0xe0, Buffer.from([0])),
      packet(0x40),
    ];
    for (const violation of violations) {
      const { raw } = await Raw.signedIn(service, service.addDevice(), edge.port);
      // Also in two pieces.
      raw.socket.write(violation.subarray(0, 1));
      raw.socket.write(violation.subarray(1));
      await raw.closed();
      expect([...raw.bytes]).toEqual([]);
    }
    await edge.close();
  });

  it('accepts packets that arrive byte by byte', async () => {
    const service = new EdgeHarness();
    const edge = await service.open();
    const device = service.addDevice();
    const { raw } = await Raw.signedIn(service, device, edge.port);
    const filter = `proto/${device.tenantId}/device/${device.deviceId}/cmd`;
    for (const byte of packets.subscribe(7, filter)) raw.socket.write(Buffer.from([byte]));
    await eventually(() => expect([...raw.bytes]).toEqual([0x90, 3, 0, 7, 1]));
    await edge.close();
  });
});
