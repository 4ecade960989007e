import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv6 } from 'node:net';

/** Returns the address of the client that sent a request or an upgrade. */
export type AddressOf = (request: IncomingMessage) => string;

/** Named networks, as in the `trust proxy` setting of Express. */
const NAMED: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.0/8', '::1/128'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
};

/**
 * The client's address: the socket's peer, or, if that is a trusted proxy, the last address in `X-Forwarded-For` that is
 * not a trusted proxy. Entries that a client adds itself are further left and are ignored.
 */
export function clientAddress(trustedProxies: readonly string[]): AddressOf {
  const peerOf = ({ socket }: IncomingMessage) => normalizeAddress(socket.remoteAddress ?? '');
  if (trustedProxies.length === 0) return peerOf;
  const isTrusted = trustedAddresses(trustedProxies);
  return (request) => {
    let address = peerOf(request);
    const forwarded = `${request.headers['x-forwarded-for'] ?? ''}`.split(',');
    while (forwarded.length > 0 && isTrusted(address)) {
      const previous = normalizeAddress((forwarded.pop() as string).trim());
      if (isIP(previous) === 0) break;
      address = previous;
    }
    return address;
  };
}

/** Whether an address is that of a trusted proxy; never for anything but an IP address. */
export function trustedAddresses(proxies: readonly string[]): (address: string) => boolean {
  const trusted = blockListOf(proxies);
  return (address) => isIP(address) !== 0 && trusted.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

function blockListOf(proxies: readonly string[]): BlockList {
  const list = new BlockList();
  for (const entry of proxies.flatMap((proxy) => NAMED[proxy] ?? [proxy])) {
    const [address = '', bits] = entry.split('/');
    const family = isIPv6(address) ? 'ipv6' : 'ipv4';
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}

/** Removes an IPv6 zone, and converts an IPv4-mapped address (dual-stack sockets) to IPv4. */
export function normalizeAddress(address: string): string {
  const percent = address.indexOf('%');
  const bare = percent === -1 ? address : address.slice(0, percent);
  return /^::ffff:\d+\.\d+\.\d+\.\d+$/i.test(bare) ? bare.slice(7) : bare;
}

/** The key for rate limits of an address: for IPv6 its /64, because a client usually controls all addresses in it. */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.toLowerCase().split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  // An embedded IPv4 address replaces two groups.
  const missing = 8 - left.length - right.length - (address.includes('.') ? 1 : 0);
  const groups = tail === undefined ? left : [...left, ...Array.from({ length: missing }, () => '0'), ...right];
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}
