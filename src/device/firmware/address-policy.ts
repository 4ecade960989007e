import { lookup } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';

// Protection against server-side request forgery (SSRF): a URL in a command must not give access to the device's local
// network.

/** The URL resolves to an address that the device must not connect to. */
export class AddressRefused extends Error {
  override name = 'AddressRefused';
}

/**
 * Always blocked: unspecified, link-local (cloud metadata services), multicast, reserved, and NAT64 (`64:ff9b::/96`).
 */
const blockedAddresses = new BlockList();
blockedAddresses.addSubnet('0.0.0.0', 8, 'ipv4');
blockedAddresses.addSubnet('169.254.0.0', 16, 'ipv4');
blockedAddresses.addSubnet('224.0.0.0', 3, 'ipv4');
blockedAddresses.addAddress('::', 'ipv6');
blockedAddresses.addSubnet('fe80::', 10, 'ipv6');
blockedAddresses.addSubnet('ff00::', 8, 'ipv6');
blockedAddresses.addSubnet('64:ff9b::', 96, 'ipv6');

/** Blocked unless the host name is trusted: loopback and private networks. */
const privateAddresses = new BlockList();
privateAddresses.addSubnet('10.0.0.0', 8, 'ipv4');
privateAddresses.addSubnet('100.64.0.0', 10, 'ipv4');
privateAddresses.addSubnet('127.0.0.0', 8, 'ipv4');
privateAddresses.addSubnet('172.16.0.0', 12, 'ipv4');
privateAddresses.addSubnet('192.0.0.0', 24, 'ipv4');
privateAddresses.addSubnet('192.168.0.0', 16, 'ipv4');
privateAddresses.addSubnet('198.18.0.0', 15, 'ipv4');
privateAddresses.addAddress('::1', 'ipv6');
privateAddresses.addSubnet('fc00::', 7, 'ipv6');

export function isAllowedAddress(address: string, trusted: boolean): boolean {
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  return !blockedAddresses.check(address, family) && (trusted || !privateAddresses.check(address, family));
}

/**
 * A DNS lookup that returns only allowed addresses. The socket connects to a checked address, so DNS rebinding has no
 * effect.
 */
export const guardedLookup =
  (trusted: boolean): LookupFunction =>
  (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      const [first, ...others] = (addresses ?? []).filter(({ address }) => isAllowedAddress(address, trusted));
      if (error) callback(error, '');
      else if (first === undefined) callback(new AddressRefused(`${hostname} has no allowed address`), '');
      else if (options.all) callback(null, [first, ...others]);
      else callback(null, first.address, first.family);
    });
  };

/** Checks a host that is an IP address: for these Node calls no `lookup`. */
export function checkHost({ hostname }: URL, trusted: boolean): void {
  const address = hostname.replace(/^\[|\]$/g, '');
  if (isIP(address) !== 0 && !isAllowedAddress(address, trusted))
    throw new AddressRefused(`${hostname} is not an allowed address`);
}
