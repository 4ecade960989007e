import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { checkHost, guardedLookup, isAllowedAddress } from '../../../src/device/firmware/address-policy.ts';

const inside = [
  '127.0.0.1',
  '10.1.2.3',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '100.64.0.1',
  '::1',
  'fd00::1',
  '::ffff:10.0.0.1',
];
const never = [
  '0.0.0.0',
  '169.254.169.254',
  '224.0.0.1',
  '255.255.255.255',
  '::',
  'fe80::1',
  'ff02::1',
  '::ffff:169.254.169.254',
  '64:ff9b::a00:1',
];
const outside = ['93.184.216.34', '172.32.0.1', '100.128.0.1', '2606:2800:220:1::1', '::ffff:93.184.216.34'];

it.each(outside)('%s is allowed', (address) => {
  expect([isAllowedAddress(address, false), isAllowedAddress(address, true)]).toEqual([true, true]);
});
it.each(inside)('%s is allowed for a trusted name', (address) => {
  expect([isAllowedAddress(address, false), isAllowedAddress(address, true)]).toEqual([false, true]);
});
it.each(never)('%s is never allowed', (address) => {
  expect([isAllowedAddress(address, false), isAllowedAddress(address, true)]).toEqual([false, false]);
});

it('a name that resolves to a private address is refused', async () => {
  const resolve = promisify(guardedLookup(false) as never) as (name: string, options: object) => Promise<unknown>;
  await expect(resolve('localhost', {})).rejects.toThrow('localhost has no allowed address');
  const trusted = promisify(guardedLookup(true) as never) as typeof resolve;
  await expect(trusted('localhost', {})).resolves.toBeTruthy();
});

it.each(['http://127.0.0.1/', 'http://2130706433/', 'http://0x7f.1/', 'http://[::1]/', 'http://[::ffff:127.0.0.1]/'])(
  '%s is refused without a lookup, in every notation',
  (url) => expect(() => checkHost(new URL(url), false)).toThrow('is not an allowed address'),
);
