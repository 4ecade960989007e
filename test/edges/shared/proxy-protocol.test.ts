import { isIPv6, SocketAddress } from 'node:net';
import { describe, expect, it } from 'vitest';
import {
  decodeProxyHeader,
  decodeProxyLine,
  type Endpoint,
  encodeProxyHeader,
  MAX_NODE_HEADER_BYTES,
  MAX_PROXY_HEADER_BYTES,
  MAX_PROXY_LINE_BYTES,
  PROXY_SIGNATURE,
} from '../../../src/edges/shared/proxy-protocol.ts';
import { fc } from '../../support/properties.ts';

const client: Endpoint = { address: '192.0.2.7', port: 51_234 };
const server: Endpoint = { address: '203.0.113.1', port: 8_883 };

/** A header of any command and family, with this content after the first 16 bytes. */
function header(command: number, family: number, content: Buffer | number[]): Buffer {
  const rest = Buffer.from(content);
  return Buffer.concat([PROXY_SIGNATURE, Buffer.from([command, family, rest.length >> 8, rest.length & 0xff]), rest]);
}

describe('an encoded header', () => {
  it('has the bytes of the specification for TCP over IPv4', () => {
    expect(encodeProxyHeader(client, server).toString('hex')).toBe(
      '0d0a0d0a000d0a515549540a' + '21' + '11' + '000c' + 'c0000207' + 'cb007101' + 'c822' + '22b3',
    );
  });

  it.each([
    ['no addresses', null, null],
    ['addresses of two families', client, { address: '2001:db8::1', port: 1 }],
    ['a name', { address: 'localhost', port: 1 }, server],
    ['a port out of range', { ...client, port: 65_536 }, server],
  ])('with %s is UNSPEC', (_, source, destination) => {
    const bytes = encodeProxyHeader(source, destination);
    expect(bytes.toString('hex')).toBe('0d0a0d0a000d0a515549540a' + '21' + '00' + '0000');
    expect(decodeProxyHeader(bytes)).toEqual({ source: null, destination: null, encrypted: null, length: 16 });
  });

  it.each([true, false])('reports whether the client uses TLS: %s', (encrypted) => {
    for (const source of [client, null]) {
      const bytes = encodeProxyHeader(source, server, encrypted);
      expect(decodeProxyHeader(bytes)).toMatchObject({ source, encrypted, length: bytes.length });
    }
  });

  const endpoint = (address: fc.Arbitrary<string>) => fc.record({ address, port: fc.integer({ min: 0, max: 65_535 }) });
  const canonical = ({ address, port }: Endpoint): Endpoint => {
    const family = isIPv6(address) ? 'ipv6' : 'ipv4';
    return {
      address: new URL(`http://${family === 'ipv6' ? `[${address}]` : address}`).hostname.replace(/[[\]]/g, ''),
      port,
    };
  };

  it('is decoded to the same addresses, whatever follows', () => {
    const pairs = fc.oneof(
      fc.tuple(endpoint(fc.ipV4()), endpoint(fc.ipV4())),
      fc.tuple(endpoint(fc.ipV6()), endpoint(fc.ipV6())),
    );
    fc.assert(
      fc.property(pairs, fc.uint8Array({ maxLength: 40 }), ([source, destination], data) => {
        const encoded = encodeProxyHeader(source, destination);
        const decoded = decodeProxyHeader(Buffer.concat([encoded, data]));
        expect(decoded).toEqual({
          source: canonical(source),
          destination: canonical(destination),
          encrypted: null,
          length: encoded.length,
        });
      }),
    );
  });

  it('of a node has the certificate of the client, if it has one', () => {
    const certificate = Buffer.alloc(3_072, 7);
    const ends = [
      { address: '192.0.2.7', port: 1 },
      { address: '203.0.113.1', port: 2 },
    ] as const;
    const encoded = encodeProxyHeader(...ends, true, certificate);
    expect(decodeProxyHeader(encoded, MAX_NODE_HEADER_BYTES)).toEqual({
      ...{ source: ends[0], destination: ends[1], encrypted: true, certificate, length: encoded.length },
    });
    expect(decodeProxyHeader(encoded)).toBe('invalid');
  });

  it('is incomplete at every length below its own', () => {
    const encoded = encodeProxyHeader({ address: '2001:db8::7', port: 1 }, { address: '::1', port: 2 });
    for (let length = 0; length < encoded.length; length += 1)
      expect(decodeProxyHeader(encoded.subarray(0, length))).toBe('incomplete');
  });
});

describe('a header of a balancer', () => {
  const addresses = [192, 0, 2, 7, 203, 0, 113, 1, 0xc8, 0x22, 0x22, 0xb3];

  it('may have TLVs, which are skipped', () => {
    const tlv = [0x02, 0, 3, 1, 2, 3];
    expect(decodeProxyHeader(header(0x21, 0x11, [...addresses, ...tlv]))).toEqual({
      ...{ source: client, destination: server, encrypted: null },
      length: 34,
    });
  });

  it.each([
    ['LOCAL, with addresses that are to be ignored', header(0x20, 0x11, addresses), 28],
    ['LOCAL, without addresses', header(0x20, 0x00, []), 16],
    ['UNSPEC', header(0x21, 0x00, [1, 2, 3]), 19],
    ['UDP', header(0x21, 0x12, addresses), 28],
    ['a UNIX socket', header(0x21, 0x31, Buffer.alloc(216)), 232],
  ])('of %s gives no address', (_, bytes, length) => {
    expect(decodeProxyHeader(bytes)).toEqual({ source: null, destination: null, encrypted: null, length });
  });

  it.each([
    ['reports that the client uses TLS', [0x20, 0, 5, 1, 0, 0, 0, 1], true],
    ['reports that the client uses none', [0x20, 0, 5, 0, 0, 0, 0, 1], false],
    ['has further information about TLS', [0x20, 0, 15, 7, 0, 0, 0, 0, 0x21, 0, 7, ...Buffer.from('TLSv1.3')], true],
    ['comes after another TLV', [0x02, 0, 1, 9, 0x20, 0, 5, 1, 0, 0, 0, 1], true],
    ['is too short', [0x20, 0, 4, 1, 0, 0, 0], null],
    ['is longer than the header', [0x20, 0, 6, 1, 0, 0, 0, 1], null],
    ['follows one that is longer than the header', [0x02, 1, 0, 0x20, 0, 5, 1, 0, 0, 0, 1], null],
  ])('may have a TLV about TLS that %s', (_, tlvs, encrypted) => {
    for (const [family, ends] of [
      [0x11, addresses],
      [0x21, Array(36).fill(1)],
      [0x00, []],
    ] as const)
      expect(decodeProxyHeader(header(0x21, family, [...ends, ...tlvs]))).toMatchObject({ encrypted });
    expect(decodeProxyHeader(header(0x20, 0x11, [...addresses, ...tlvs]))).toMatchObject({ encrypted: null });
  });

  it.each([
    ['another signature', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
    ['version 1', Buffer.from('PROXY TCP4 192.0.2.7 203.0.113.1 1 2\r\n')],
    ['version 3', header(0x31, 0x11, addresses)],
    ['an unknown command', header(0x22, 0x11, addresses)],
    ['an unknown family', header(0x21, 0x41, addresses)],
    ['an unknown transport', header(0x21, 0x13, addresses)],
    ['too few bytes for its addresses', header(0x21, 0x11, addresses.slice(0, 11))],
    ['IPv6 and the length of IPv4', header(0x21, 0x21, addresses)],
    ['a length above the limit', header(0x21, 0x11, Buffer.alloc(MAX_PROXY_HEADER_BYTES - 15))],
  ])('with %s is invalid', (_, bytes) => {
    expect(decodeProxyHeader(bytes)).toBe('invalid');
  });

  it('is rejected at the first byte that differs, without waiting for more', () => {
    expect(decodeProxyHeader(Buffer.from([0x10]))).toBe('invalid');
    expect(decodeProxyHeader(Buffer.concat([PROXY_SIGNATURE, Buffer.from([0x11])]))).toBe('invalid');
  });

  it('of any bytes never throws, and gives IP addresses or none', () => {
    const valid = fc.tuple(
      fc.constantFrom(0x20, 0x21),
      fc.constantFrom(0, 0x11, 0x21),
      fc.uint8Array({ maxLength: 64 }),
    );
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 64 }).map((some) => Buffer.from(some)),
      valid.map(([command, family, content]) => header(command, family, Buffer.from(content))),
    );
    fc.assert(
      fc.property(bytes, (given) => {
        const decoded = decodeProxyHeader(given);
        if (typeof decoded === 'string') return;
        expect(decoded.length).toBeLessThanOrEqual(given.length);
        if (decoded.source === null) return;
        const { address, port } = decoded.source;
        expect(new SocketAddress({ address, port, family: isIPv6(address) ? 'ipv6' : 'ipv4' }).port).toBe(port);
      }),
    );
  });
});

describe('a header of version 1', () => {
  const decode = (line: string) => decodeProxyLine(Buffer.from(line, 'latin1'));

  it.each([
    ['TCP4 192.0.2.7 203.0.113.1 51234 8883', client, server],
    ['TCP6 2001:DB8:0:0:0:0:0:7 ::1 0 65535', { address: '2001:db8::7', port: 0 }, { address: '::1', port: 65_535 }],
    ['UNKNOWN', null, null],
    ['UNKNOWN ffff:f...f:ffff whatever follows', null, null],
  ])('%s gives the addresses, whatever follows', (text, source, destination) => {
    const line = `PROXY ${text}\r\n`;
    const decoded = { source, destination, encrypted: null, length: line.length };
    expect(decode(line)).toEqual(decoded);
    expect(decode(`${line}PROXY TCP4\r\n\x10`)).toEqual(decoded);
    for (let length = 0; length < line.length; length += 1) expect(decode(line.slice(0, length))).toBe('incomplete');
  });

  it('is the longest of the specification with its limit of bytes', () => {
    const address = Array.from({ length: 8 }, () => 'ffff').join(':');
    const line = `PROXY UNKNOWN ${address} ${address} 65535 65535\r\n`;
    expect(line).toHaveLength(MAX_PROXY_LINE_BYTES);
    expect(decode(line)).toEqual({ source: null, destination: null, encrypted: null, length: MAX_PROXY_LINE_BYTES });
    const longer = `PROXY UNKNOWN  ${address} ${address} 65535 65535\r\n`;
    expect(decode(longer)).toBe('invalid');
    expect(decode(longer.slice(0, MAX_PROXY_LINE_BYTES - 1))).toBe('incomplete');
  });

  it.each([
    ['another first word', 'GET / HTTP/1.1\r\n'],
    ['small letters', 'proxy TCP4 192.0.2.7 203.0.113.1 1 2\r\n'],
    ['no family', 'PROXY \r\n'],
    ['an unknown family', 'PROXY UDP4 192.0.2.7 203.0.113.1 1 2\r\n'],
    ['an address of another family', 'PROXY TCP4 ::1 203.0.113.1 1 2\r\n'],
    ['IPv4 as TCP6', 'PROXY TCP6 192.0.2.7 203.0.113.1 1 2\r\n'],
    ['a number with a leading zero in an address', 'PROXY TCP4 192.0.02.7 203.0.113.1 1 2\r\n'],
    ['a zone', 'PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n'],
    ['a name', 'PROXY TCP4 localhost 203.0.113.1 1 2\r\n'],
    ['a port out of range', 'PROXY TCP4 192.0.2.7 203.0.113.1 65536 2\r\n'],
    ['a port with a leading zero', 'PROXY TCP4 192.0.2.7 203.0.113.1 01 2\r\n'],
    ['a port that is no number', 'PROXY TCP4 192.0.2.7 203.0.113.1 1 +2\r\n'],
    ['a missing port', 'PROXY TCP4 192.0.2.7 203.0.113.1 1\r\n'],
    ['a further field', 'PROXY TCP4 192.0.2.7 203.0.113.1 1 2 3\r\n'],
    ['two spaces', 'PROXY  TCP4 192.0.2.7 203.0.113.1 1 2\r\n'],
    ['a line feed alone', 'PROXY TCP4 192.0.2.7 203.0.113.1 1 2\n'.padEnd(MAX_PROXY_LINE_BYTES, 'x')],
  ])('with %s is invalid', (_, line) => {
    expect(decode(line)).toBe('invalid');
  });

  it('of any text never throws, and gives IP addresses or none', () => {
    const field = fc.oneof(fc.ipV4(), fc.ipV6(), fc.string({ maxLength: 8 }), fc.nat(70_000).map(String));
    const line = fc
      .tuple(fc.constantFrom('TCP4', 'TCP6', 'UNKNOWN', 'TCP'), fc.array(field, { maxLength: 5 }))
      .map(([family, fields]) => `PROXY ${[family, ...fields].join(' ')}\r\n`);
    fc.assert(
      fc.property(fc.oneof(line, fc.string({ maxLength: 120 })), (text) => {
        const bytes = Buffer.from(text);
        const decoded = decodeProxyLine(bytes);
        if (typeof decoded === 'string' || decoded.source === null) return;
        expect(decoded.length).toBeLessThanOrEqual(bytes.length);
        const { address, port } = decoded.source;
        expect(new SocketAddress({ address, port, family: isIPv6(address) ? 'ipv6' : 'ipv4' }).port).toBe(port);
      }),
    );
  });
});
