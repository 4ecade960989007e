import { describe, expect, it } from 'vitest';
import { SignatureRefused, verifyFirmwareSignature } from '../../../src/device/firmware/signature.ts';
import type { JsonObject } from '../../../src/domain/values.ts';
import { firmwareTestKey, sha256 } from '../../support/firmware-key.ts';

const content = Buffer.from('firmware');
const checksum = sha256(content);
const [old, current] = [firmwareTestKey(), firmwareTestKey()];
const params = { version: '1.5.0', size: content.length, signature: current.sign(content), key_id: current.keyId };
const verify = (more: JsonObject = {}, publicKeys = [old.publicKey, current.publicKey], deviceType = 'smart_light') =>
  verifyFirmwareSignature({ publicKeys, deviceType, params: { ...params, ...more } }, checksum);

describe('the device', () => {
  it('accepts firmware that one of its keys has signed, and learns its size', () => {
    expect(verify()).toBe(content.length);
    expect(verify({ signature: old.sign(content), key_id: 'whatever' })).toBe(content.length);
  });

  it.each<[string, JsonObject]>([
    ['no signature', { signature: null }],
    ['no size', { size: null }],
    ['no version', { version: null }],
    ['the signature of another version', { signature: current.sign(content, { version: '1.4.0' }) }],
    ['the signature of another type', { signature: current.sign(content, { deviceType: 'smart_lock' }) }],
    ['the signature of another file', { signature: current.sign(Buffer.from('other')) }],
    ['a version that is not one line', { version: '1.5.0\n' }],
    ['another size', { size: content.length + 1 }],
    ['a size that is none', { size: -1 }],
    ['a malformed signature', { signature: 'x' }],
    ['the signature of a key that it was not built with', { signature: firmwareTestKey().sign(content) }],
  ])('refuses firmware with %s', (_, more) => {
    expect(() => verify(more)).toThrow(SignatureRefused);
  });

  it('refuses everything if it was built without keys, or as another type', () => {
    expect(() => verify({}, [])).toThrow(SignatureRefused);
    expect(() => verify({}, undefined, 'smart_lock')).toThrow(SignatureRefused);
  });

  it('throws a TypeError if one of its keys is malformed', () => {
    expect(() => verify({}, [current.publicKey, 'x'])).toThrow(TypeError);
  });
});
