import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { artifactUrlError, findUpdate, isVersion, rolloutBucket, withoutBuild } from '../../src/domain/firmware.ts';
import { fc } from '../support/properties.ts';

const id = (n: number) => `0195d9a2-7f00-7000-8000-${n.toString(16).padStart(12, '0')}`;

describe('a version', () => {
  it.each([
    '0.0.0',
    '1.2.3',
    '10.20.30',
    '1.0.0-alpha',
    '1.0.0-alpha.1',
    '1.0.0-0A.is.legal',
    '1.0.0+build.7',
    '1.0.0-rc.1+5',
  ])('%s is semantic', (version) => expect(isVersion(version)).toBe(true));
  it.each([
    '',
    '1',
    '1.2',
    'v1.2.3',
    '=1.2.3',
    ' 1.2.3',
    '1.2.3 ',
    '01.2.3',
    '1.2.03',
    '1.2.3-',
    '1.2.3-01',
    '1.2.3.4',
    '1.2.x',
    '99999999999999999.0.0',
    `1.2.3-${'a'.repeat(64)}`,
    '1.2.3\n',
    '1.2.3-ä',
  ])('%j is not a version', (version) => expect(isVersion(version)).toBe(false));
  it('is compared without its build metadata', () => {
    expect(withoutBuild('1.0.0-rc.1+5.sha')).toBe('1.0.0-rc.1');
    expect(withoutBuild('1.0.0')).toBe('1.0.0');
  });
});

describe('the rollout bucket of a device', () => {
  it('is the digest as one number, modulo 100', () => {
    const device = id(2);
    const digest = createHash('sha256')
      .update(`${id(1)}|${device}`)
      .digest();
    let rest = 0;
    for (const byte of digest) rest = (rest * 256 + byte) % 100;
    expect(rolloutBucket(id(1), device)).toBe(rest);
    expect(rolloutBucket(id(1).toUpperCase(), device.toUpperCase())).toBe(rest);
  });

  it('matches a worked example', () => {
    const release = '0195d9a2-7f00-7000-8000-000000000006';
    expect(rolloutBucket(release, '0195d9a2-7f00-7000-8000-000000000001')).toBe(47);
  });

  it('falls within a rollout of p percent for about p of a hundred devices', () => {
    const devices = Array.from({ length: 20_000 }, (_, n) => id(n));
    for (const percent of [1, 10, 50, 90]) {
      const held = devices.filter((device) => rolloutBucket(id(77), device) < percent).length;
      expect(Math.abs(held / 200 - percent)).toBeLessThan(1.5);
    }
  });

  it('is included in every larger rollout', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.uuid(), fc.integer({ min: 0, max: 99 }), (release, device, percent) => {
        const offer = (rolloutPercent: number) =>
          findUpdate([{ id: release, version: '2.0.0', rolloutPercent }], '1.0.0', device) !== null;
        if (offer(percent)) expect(offer(percent + 1)).toBe(true);
        expect(offer(0)).toBe(false);
        expect(offer(100)).toBe(true);
      }),
    );
  });
});

describe('the update for a device', () => {
  const release = (version: string, rolloutPercent = 100, n = 1) => ({ id: id(n), version, rolloutPercent });

  it('is the highest released version above the device’s own, by semantic precedence instead of text order', () => {
    const all = ['1.9.0', '1.10.0', '1.10.0-rc.2', '0.9.9'].map((version) => release(version));
    expect(findUpdate(all, '1.2.0', null)?.version).toBe('1.10.0');
    expect(findUpdate(all, '1.10.0-rc.1', null)?.version).toBe('1.10.0');
    expect(findUpdate(all, '1.10.0', null)).toBeNull();
    expect(findUpdate(all, '1.10.0+7', null)).toBeNull();
    expect(findUpdate([], '0.0.1', null)).toBeNull();
  });

  it('skips a release whose rollout does not include the device', () => {
    const all = [release('2.0.0', 0, 2), release('1.5.0')];
    expect(findUpdate(all, '1.0.0', id(9))?.version).toBe('1.5.0');
  });

  it('without a device is a release for all devices', () => {
    const all = [release('2.0.0', 99, 2), release('1.5.0', 100)];
    expect(findUpdate(all, '1.0.0', null)?.version).toBe('1.5.0');
  });
});

describe('a firmware URL', () => {
  it.each([
    'https://example.com/fw.bin',
    'http://fw.example.com:8080/a/b?c=d',
    'https://10.0.0.5/fw',
    'http://127.0.0.1:9/x',
  ])('%s is accepted', (url) => expect(artifactUrlError(url)).toBeNull());
  it.each([
    '',
    'fw.bin',
    '/fw.bin',
    '//example.com/fw',
    'ftp://example.com/fw',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'https:example.com',
    'https:///example.com/fw',
    'https://me:secret@example.com/fw',
    'https://me@example.com/fw',
    'https://example.com/fw#part',
    'http://169.254.169.254/latest/meta-data',
    'http://2852039166/latest',
    'http://0xa9fea9fe/',
    'http://0.0.0.0/',
    'http://[::]/',
    'http://[fe80::1]/',
    'http://[::ffff:169.254.169.254]/',
    'http://224.0.0.1/',
    'http://[ff02::1]/',
    `https://example.com/${'a'.repeat(2_048)}`,
    'https://a.example/x y',
    'https://a.example/x\r\nHost: b',
    'https://a.example\\@b.example/x',
  ])('%s is rejected', (url) => expect(artifactUrlError(url)).not.toBeNull());
});
