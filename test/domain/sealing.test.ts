import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { keyId, makeSealer, SealBroken } from '../../src/domain/sealing.ts';
import { fc } from '../support/properties.ts';

const [key, other] = [randomBytes(32), randomBytes(32)];
const sealer = makeSealer(key);
const place = 'device/0192/1';

describe('a sealed secret', () => {
  it('opens to the sealed plaintext in its context', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (plain, aad) => {
        expect(sealer.open(sealer.seal(plain, aad), aad)).toBe(plain);
      }),
    );
  });

  it('shows neither the secret nor the key, and differs each time', () => {
    const blob = sealer.seal('open sesame', place);
    expect(blob).not.toContain('sesame');
    expect(blob).not.toContain(key.toString('base64url'));
    expect(blob).not.toBe(sealer.seal('open sesame', place));
  });

  it('names the key that sealed it', () => {
    expect(sealer.seal('x', place).split('.')[1]).toBe(keyId(key));
    expect(keyId(key)).not.toBe(keyId(other));
  });

  it('still opens with the previous key, and new ones use the current key', () => {
    const rotated = makeSealer(other, key);
    expect(rotated.open(sealer.seal('kept', place), place)).toBe('kept');
    expect(rotated.seal('new', place).split('.')[1]).toBe(keyId(other));
    expect(() => sealer.open(rotated.seal('new', place), place)).toThrow(/unknown master key/);
  });

  it('does not open in another context', () => {
    expect(() => sealer.open(sealer.seal('x', place), 'device/0192/2')).toThrow(SealBroken);
  });

  it('does not open after any change', () => {
    const blob = sealer.seal('secret', place);
    const [format, id, body = ''] = blob.split('.');
    const bytes = Buffer.from(body, 'base64url');
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] as number) ^ 1;
      expect(() => sealer.open([format, id, changed.toString('base64url')].join('.'), place)).toThrow(SealBroken);
    }
    const short = bytes.subarray(0, 27).toString('base64url');
    for (const text of ['', 'plain', `s2.${id}.${body}`, `${blob}.x`, `s1.${id}`, `s1.${id}.${short}`]) {
      expect(() => sealer.open(text, place)).toThrow(SealBroken);
    }
  });

  it('is unaffected when the caller changes the key afterwards', () => {
    const borrowed = randomBytes(32);
    const kept = makeSealer(borrowed);
    const blob = kept.seal('x', place);
    borrowed.fill(0);
    expect(kept.open(blob, place)).toBe('x');
  });

  it('requires keys of 32 bytes', () => {
    expect(() => makeSealer(randomBytes(16))).toThrow(RangeError);
    expect(() => makeSealer(key, randomBytes(33))).toThrow(RangeError);
  });
});
