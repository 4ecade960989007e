import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv6 } from 'node:net';

/** The address of the client that sent a request, an upgrade too. */
export type AddressOf = (request: IncomingMessage) => string;

/** What express's `trust proxy` means by these names. */
const NAMED: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.0/8', '::1/128'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
};

/**
 * Who sent a request: the socket's peer, or, where that is a trusted proxy, the last address of `X-Forwarded-For` that is
 * none. Whatever a client writes there itself stands further left and counts for nothing.
 */
export function clientAddress(trustedProxies: readonly string[]): AddressOf {
  const peerOf = ({ socket }: IncomingMessage) => normalizeAddress(socket.remoteAddress ?? '');
  if (trustedProxies.length === 0) return peerOf;
  const trusted = listOf(trustedProxies);
  const isTrusted = (address: string) => trusted.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
  return (request) => {
    let address = peerOf(request);
    const forwarded = `${request.headers['x-forwarded-for'] ?? ''}`.split(',');
    while (forwarded.length > 0 && isIP(address) !== 0 && isTrusted(address)) {
      const before = normalizeAddress((forwarded.pop() as string).trim());
      if (isIP(before) === 0) break;
      address = before;
    }
    return address;
  };
}

function listOf(proxies: readonly string[]): BlockList {
  const list = new BlockList();
  for (const entry of proxies.flatMap((proxy) => NAMED[proxy] ?? [proxy])) {
    const [address = '', bits] = entry.split('/');
    const family = isIPv6(address) ? 'ipv6' : 'ipv4';
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}

/** Without an IPv6 zone, and an IPv4 address as one where a socket of both families wraps it. */
export function normalizeAddress(address: string): string {
  const percent = address.indexOf('%');
  const bare = percent === -1 ? address : address.slice(0, percent);
  return /^::ffff:\d+\.\d+\.\d+\.\d+$/i.test(bare) ? bare.slice(7) : bare;
}

/** Who is limited under an address: of IPv6 its /64, for whoever has one address there has them all. */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.toLowerCase().split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  // A dotted end takes the place of two groups.
  const missing = 8 - left.length - right.length - (address.includes('.') ? 1 : 0);
  const groups = tail === undefined ? left : [...left, ...Array.from({ length: missing }, () => '0'), ...right];
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}
