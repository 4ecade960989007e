import { isIPv4, isIPv6 } from 'node:net';

/*
 * PROXY protocol (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt): a header before the first byte of a
 * connection that carries the client's address. Version 1 (section 2.1) is a line of text, version 2 (section 2.2) is
 * binary. Nodes send each other version 2; balancers send either.
 */

/** The first bytes of every header of version 1. */
export const PROXY_LINE_START: Buffer = Buffer.from('PROXY ');

/** Longest header of version 1, with its CRLF. */
export const MAX_PROXY_LINE_BYTES = 107;

/** The first 12 bytes of every header of version 2. */
export const PROXY_SIGNATURE: Buffer = Buffer.from([
  ...[0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a],
]);

/** Length of the part before the addresses: signature, version and command, family and protocol, length. */
export const PROXY_PREFIX_BYTES = 16;

/** Longest accepted header of another node, which may add the certificate of the client. */
export const MAX_NODE_HEADER_BYTES = 4_096;

/** Longest accepted header: addresses (at most 216 bytes) and the TLVs that balancers add. */
export const MAX_PROXY_HEADER_BYTES = 1_024;

/** One end of a connection. */
export interface Endpoint {
  /** IPv4 or IPv6 in text form. */
  address: string;
  port: number;
}

/**
 * A decoded header. `source` is the client's end and `destination` the end that it connected to; both are null if the
 * balancer sent no addresses: a health check of its own (`LOCAL`) or an address family without IP addresses. `encrypted`:
 * whether the client uses TLS, null if the header does not report it.
 */
export interface ProxyHeader {
  source: Endpoint | null;
  destination: Endpoint | null;
  encrypted: boolean | null;
  /** The certificate (DER) that the client presented to the node that sent the header. Set by nodes, and used only on links. */
  certificate?: Buffer;
  /** Total length in bytes: what follows is the connection's data. */
  length: number;
}

/** `incomplete`: more bytes are needed. `invalid`: these bytes are not the start of an acceptable header. */
export type DecodedProxyHeader = ProxyHeader | 'incomplete' | 'invalid';

const VERSION = 0x20;
const LOCAL = 0x0;
const PROXY = 0x1;
const UNSPEC = 0x00;
const TCP4 = 0x11;
const TCP6 = 0x21;
const MAX_PORT = 65_535;

/** Type of the TLV about TLS (section 2.2.6), and the bit of its first byte that means that the client uses it. */
const PP2_TYPE_SSL = 0x20;
const PP2_CLIENT_SSL = 0x01;
/** The first type for applications (section 2.2.7): nodes send each other the certificate of the client. */
const PP2_TYPE_CERTIFICATE = 0xe0;
/** Bytes of a TLV before its value, and the shortest value of the one about TLS: its bits and a verification result. */
const TLV_PREFIX_BYTES = 3;
const SSL_BYTES = 5;

/**
 * Encodes the header of a TCP connection; `UNSPEC` if the addresses are not two of the same family. With `encrypted` it
 * reports whether the client uses TLS.
 */
export function encodeProxyHeader(
  source: Endpoint | null,
  destination: Endpoint | null,
  encrypted: boolean | null = null,
  certificate: Buffer | null = null,
): Buffer {
  const tlvs = [
    ...(encrypted === null ? [] : sslTlv(encrypted)),
    ...(certificate === null ? [] : certificateTlv(certificate)),
  ];
  if (source !== null && destination !== null && isEncodable(source) && isEncodable(destination)) {
    const ends = [source, destination] as const;
    if (isIPv4(source.address) && isIPv4(destination.address)) return encode(TCP4, addressesOf(ipv4Bytes, ends), tlvs);
    if (isIPv6(source.address) && isIPv6(destination.address)) return encode(TCP6, addressesOf(ipv6Bytes, ends), tlvs);
  }
  return encode(UNSPEC, [], tlvs);
}

/** The verification result is not zero: no certificate of the client was verified. */
const sslTlv = (encrypted: boolean): number[] => [
  ...[PP2_TYPE_SSL, 0, SSL_BYTES, encrypted ? PP2_CLIENT_SSL : 0],
  ...[0, 0, 0, 1],
];

const certificateTlv = (certificate: Buffer): number[] => [
  ...[PP2_TYPE_CERTIFICATE, certificate.length >> 8, certificate.length & 0xff],
  ...certificate,
];

/** Decodes the header of version 2 at the start of `bytes`. Of its TLVs only those about TLS and the certificate are used. */
export function decodeProxyHeader(bytes: Buffer, maxBytes: number = MAX_PROXY_HEADER_BYTES): DecodedProxyHeader {
  const start = Math.min(bytes.length, PROXY_SIGNATURE.length);
  if (PROXY_SIGNATURE.compare(bytes, 0, start, 0, start) !== 0) return 'invalid';
  const command = bytes[12];
  if (command !== undefined && command !== (VERSION | LOCAL) && command !== (VERSION | PROXY)) return 'invalid';
  if (bytes.length < PROXY_PREFIX_BYTES) return 'incomplete';
  const length = PROXY_PREFIX_BYTES + bytes.readUInt16BE(14);
  if (length > maxBytes) return 'invalid';
  const family = bytes[13] as number;
  const size = command === (VERSION | PROXY) ? addressBytes(family) : 0;
  if (size === null || length < PROXY_PREFIX_BYTES + 2 * (size === 0 ? 0 : size + 2)) return 'invalid';
  if (bytes.length < length) return 'incomplete';
  const tlvs = command === (VERSION | PROXY) ? tlvsAt(family) : null;
  const encrypted = isEncryptedBy(tlvOf(bytes, tlvs, length, PP2_TYPE_SSL));
  const certificate = tlvOf(bytes, tlvs, length, PP2_TYPE_CERTIFICATE);
  const reported = { encrypted, ...(certificate !== null && { certificate }), length };
  if (size === 0) return { source: null, destination: null, ...reported };
  const ports = PROXY_PREFIX_BYTES + 2 * size;
  return {
    ...reported,
    source: { address: addressAt(bytes, PROXY_PREFIX_BYTES, size), port: bytes.readUInt16BE(ports) },
    destination: { address: addressAt(bytes, PROXY_PREFIX_BYTES + size, size), port: bytes.readUInt16BE(ports + 2) },
  };
}

/** Position of the TLVs; null for families whose addresses are not used, except the unspecified one. */
function tlvsAt(family: number): number | null {
  if (family === TCP4) return PROXY_PREFIX_BYTES + 12;
  if (family === TCP6) return PROXY_PREFIX_BYTES + 36;
  return family === UNSPEC ? PROXY_PREFIX_BYTES : null;
}

/** Whether the TLV about TLS reports that the client uses it; null without a valid one. */
const isEncryptedBy = (ssl: Buffer | null): boolean | null =>
  ssl === null || ssl.length < SSL_BYTES ? null : ((ssl[0] as number) & PP2_CLIENT_SSL) !== 0;

/** The value of the first TLV of a type; null without one. */
function tlvOf(bytes: Buffer, start: number | null, end: number, type: number): Buffer | null {
  if (start === null) return null;
  for (let at = start; at + TLV_PREFIX_BYTES <= end; ) {
    const valueAt = at + TLV_PREFIX_BYTES;
    const size = bytes.readUInt16BE(at + 1);
    if (valueAt + size > end) return null;
    if (bytes[at] === type) return bytes.subarray(valueAt, valueAt + size);
    at = valueAt + size;
  }
  return null;
}

/** Decodes the header of version 1 at the start of `bytes`: `PROXY TCP4 source destination port port` and CRLF. */
export function decodeProxyLine(bytes: Buffer): DecodedProxyHeader {
  const start = Math.min(bytes.length, PROXY_LINE_START.length);
  if (PROXY_LINE_START.compare(bytes, 0, start, 0, start) !== 0) return 'invalid';
  const end = bytes.subarray(0, MAX_PROXY_LINE_BYTES).indexOf('\r\n');
  if (end === -1) return bytes.length < MAX_PROXY_LINE_BYTES ? 'incomplete' : 'invalid';
  const length = end + 2;
  const [family, ...fields] = bytes.toString('latin1', PROXY_LINE_START.length, end).split(' ');
  // The rest of the line is ignored, as the specification requires.
  if (family === 'UNKNOWN') return { source: null, destination: null, encrypted: null, length };
  const [source, destination, sourcePort, destinationPort] = fields;
  if ((family !== 'TCP4' && family !== 'TCP6') || fields.length !== 4) return 'invalid';
  const ends = [endpointOf(family, source, sourcePort), endpointOf(family, destination, destinationPort)] as const;
  if (ends[0] === null || ends[1] === null) return 'invalid';
  return { source: ends[0], destination: ends[1], encrypted: null, length };
}

function endpointOf(family: 'TCP4' | 'TCP6', address = '', digits = ''): Endpoint | null {
  const port = /^(?:0|[1-9]\d{0,4})$/.test(digits) ? Number(digits) : Number.NaN;
  if (!(port <= MAX_PORT)) return null;
  if (family === 'TCP4') return isIPv4(address) ? { address, port } : null;
  const isZoned = address.includes('%');
  return isIPv6(address) && !isZoned ? { address: addressAt(Buffer.from(ipv6Bytes(address)), 0, 16), port } : null;
}

/**
 * Bytes of an address of this family and protocol: 4 or 16 for IP over a stream, 0 for families whose addresses are not
 * used (UDP, UNIX sockets, unspecified); null for values that are reserved.
 */
function addressBytes(family: number): 0 | 4 | 16 | null {
  if (family === TCP4) return 4;
  if (family === TCP6) return 16;
  return family >> 4 <= 3 && (family & 0x0f) <= 2 ? 0 : null;
}

const isEncodable = ({ port }: Endpoint): boolean => Number.isInteger(port) && port >= 0 && port <= MAX_PORT;

const addressesOf = (
  bytesOf: (address: string) => number[],
  [source, destination]: readonly [Endpoint, Endpoint],
): number[] => [
  ...[...bytesOf(source.address), ...bytesOf(destination.address)],
  ...[source.port >> 8, source.port & 0xff, destination.port >> 8, destination.port & 0xff],
];

const encode = (family: number, addresses: readonly number[], tlvs: readonly number[]): Buffer =>
  Buffer.from([
    ...[...PROXY_SIGNATURE, VERSION | PROXY, family],
    ...[(addresses.length + tlvs.length) >> 8, (addresses.length + tlvs.length) & 0xff],
    ...[...addresses, ...tlvs],
  ]);

const ipv4Bytes = (address: string): number[] => address.split('.').map(Number);

/** The 16 bytes of an IPv6 address (RFC 4291 §2.2), without its zone. */
function ipv6Bytes(address: string): number[] {
  const [text = ''] = address.split('%', 1);
  const [head = '', tail] = text.split('::');
  const left = groupsOf(head);
  const right = tail === undefined ? [] : groupsOf(tail);
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => 0);
  return [...left, ...zeros, ...right].flatMap((group) => [group >> 8, group & 0xff]);
}

function groupsOf(text: string): number[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [Number.parseInt(group, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = ipv4Bytes(group);
    return [(a << 8) | b, (c << 8) | d];
  });
}

function addressAt(bytes: Buffer, at: number, size: 4 | 16): string {
  if (size === 4) return bytes.subarray(at, at + 4).join('.');
  const groups = Array.from({ length: 8 }, (_, n) => bytes.readUInt16BE(at + 2 * n).toString(16));
  return compressed(groups);
}

/** The text form of RFC 5952 §4.2: the longest run of at least two zero groups becomes `::`. */
function compressed(groups: readonly string[]): string {
  let best = { start: 0, length: 1 };
  for (let start = 0; start < groups.length; start += 1) {
    let length = 0;
    while (groups[start + length] === '0') length += 1;
    if (length > best.length) best = { start, length };
  }
  if (best.length === 1) return groups.join(':');
  return `${groups.slice(0, best.start).join(':')}::${groups.slice(best.start + best.length).join(':')}`;
}
