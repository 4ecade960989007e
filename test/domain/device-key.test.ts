import { describe, expect, it } from 'vitest';
import { hasKeyEnded, secretBinding } from '../../src/domain/device-key.ts';

describe('a version of a device key', () => {
  it('has ended when it was replaced and is not in grace', () => {
    expect([1, 2, 3, 4].map((version) => hasKeyEnded({ keyVersion: 3, grace: null }, version))).toEqual([
      ...[true, true, false, false],
    ]);
    expect([1, 2, 3].map((version) => hasKeyEnded({ keyVersion: 3, grace: { keyVersion: 2 } }, version))).toEqual([
      ...[true, false, false],
    ]);
  });

  it('seals its secret for the device and the version', () => {
    expect(secretBinding('0195d9a2-7f00-7000-8000-000000000001', 2)).toEqual({
      purpose: 'device secrets',
      aad: 'device:0195d9a2-7f00-7000-8000-000000000001:2',
    });
  });
});
