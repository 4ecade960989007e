import type { IncomingMessage } from 'node:http';
import express from 'express';
import { describe, expect, it } from 'vitest';
import { clientAddress, networkOf } from '../../../src/edges/shared/client-address.ts';
import { fc } from '../../support/properties.ts';

const from = (remoteAddress: string, forwarded?: string) =>
  ({
    socket: { remoteAddress },
    connection: { remoteAddress },
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  }) as unknown as IncomingMessage;

describe('the client address', () => {
  it.each([
    ['no proxy is trusted', [], '10.0.0.1', '1.2.3.4', '10.0.0.1'],
    ['the peer is not a trusted proxy', ['10.0.0.2'], '10.0.0.1', '1.2.3.4', '10.0.0.1'],
    ['the peer is trusted', ['10.0.0.1'], '10.0.0.1', '1.2.3.4', '1.2.3.4'],
    ['the client wrote addresses itself', ['10.0.0.1'], '10.0.0.1', '6.6.6.6, 10.0.0.1, 1.2.3.4', '1.2.3.4'],
    ['two proxies are trusted', ['10.0.0.0/8'], '10.0.0.1', '6.6.6.6, 1.2.3.4, 10.9.9.9', '1.2.3.4'],
    ['all are trusted', ['10.0.0.0/8'], '10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['nothing was forwarded', ['10.0.0.1'], '10.0.0.1', undefined, '10.0.0.1'],
    ['the forwarded value is not an address', ['10.0.0.1'], '10.0.0.1', '1.2.3.4, unknown', '10.0.0.1'],
    ['the proxy is on loopback', ['loopback'], '::1', '1.2.3.4', '1.2.3.4'],
    ['a socket of both families wraps the proxy', ['127.0.0.1'], '::ffff:127.0.0.1', '::ffff:1.2.3.4', '1.2.3.4'],
    ['the proxies speak IPv6', ['2001:db8::/32'], '2001:db8::1', '2a00::5', '2a00::5'],
    ['the address has a zone', [], 'fe80::1%eth0', undefined, 'fe80::1'],
  ] as const)('is determined when %s', (_, proxies, peer, forwarded, found) => {
    expect(clientAddress(proxies)(from(peer, forwarded))).toBe(found);
  });

  it('equals that of express', () => {
    const proxies = ['loopback', '10.0.0.0/8', '2001:db8::/32'];
    const app = express();
    app.set('trust proxy', proxies);
    const ours = clientAddress(proxies);
    const address = fc.oneof(
      fc.constantFrom('127.0.0.1', '10.1.2.3', '2001:db8::1', '::1'),
      fc.ipV4(),
      fc.constantFrom('2a00::1', '2001:db9::2'),
    );
    fc.assert(
      fc.property(address, fc.array(address, { maxLength: 5 }), (peer, chain) => {
        const request = from(peer, chain.join(', '));
        const theirs = Object.create(app.request, Object.getOwnPropertyDescriptors(request)) as { ip: string };
        expect(ours(request)).toBe(theirs.ip);
      }),
    );
  });
});

describe('the rate limit key of an address', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2::9', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:0db8:0000:0000:ffff::', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['64:ff9b::1.2.3.4', '64:ff9b:0:0::/64'],
    ['1:2:3:4:5:6:1.2.3.4', '1:2:3:4::/64'],
    ['', ''],
  ])('%s is limited as %s', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });

  it('is the same for every address of a /64, in any notation', () => {
    const group = fc.integer({ min: 0, max: 0xffff }).map((n) => n.toString(16));
    const half = fc.tuple(group, group, group, group);
    fc.assert(
      fc.property(half, half, half, (network, one, other) => {
        const written = ([...groups]: string[]) => groups.join(':');
        const padded = ([...groups]: string[]) => groups.map((text) => text.padStart(4, '0').toUpperCase()).join(':');
        expect(networkOf(written([...network, ...one]))).toBe(networkOf(padded([...network, ...other])));
        const [a, b, c, d] = network;
        expect(networkOf(`${a}:${b}:${c}:${d}::1`)).toBe(networkOf(written([...network, ...one])));
      }),
    );
  });
});
