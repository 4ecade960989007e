import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  keyId,
  makeSealer,
  SealBroken,
  type SealedPlace,
  type SealingPurpose,
  sealedWith,
  sealingPurposes,
} from '../../src/domain/sealing.ts';
import { fc } from '../support/properties.ts';

const [key, other] = [randomBytes(32), randomBytes(32)];
const sealer = makeSealer({ current: key });
const placeOf = (aad: string, purpose: SealingPurpose = 'device secrets'): SealedPlace => ({ purpose, aad });
const place = placeOf('device/0192/1');

describe('a sealed secret', () => {
  it('opens to the sealed plaintext in its context', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.string(),
        fc.constantFrom(...sealingPurposes),
        fc.boolean(),
        (plain, aad, purpose, usesSubKeys) => {
          const writer = makeSealer({ current: key }, () => usesSubKeys);
          const blob = writer.seal(plain, placeOf(aad, purpose));
          expect(sealedWith(blob)).toEqual({ form: usesSubKeys ? 's2' : 's1', keyId: keyId(key) });
          expect(sealer.open(blob, placeOf(aad, purpose))).toBe(plain);
        },
      ),
    );
  });

  it('shows neither the secret nor the key, and differs each time', () => {
    const blob = sealer.seal('open sesame', place);
    expect(blob).not.toContain('sesame');
    expect(blob).not.toContain(key.toString('base64url'));
    expect(blob).not.toBe(sealer.seal('open sesame', place));
  });

  it('names the key that sealed it', () => {
    expect(sealedWith(sealer.seal('x', place))?.keyId).toBe(keyId(key));
    expect(keyId(key)).not.toBe(keyId(other));
    expect(makeSealer({ current: key, next: other }).keyIds).toEqual({
      ...{ current: keyId(key), next: keyId(other), previous: null },
    });
  });

  it('of version 1.0.0 still opens', () => {
    const blob = 's1.h1XeE5QJGF-.fSgHy4iDf54ZxFXUXswd_fnLb3fOhVzMsAVlbM0k1arr060EMxXq';
    const reader = makeSealer({ current: other, previous: Buffer.alloc(32, 7) });
    expect(reader.open(blob, placeOf('device:0192:1'))).toBe('open sesame');
    expect(() => reader.open(blob, placeOf('device:0192:2'))).toThrow(SealBroken);
  });

  it('still opens with the previous key, and new ones use the current key', () => {
    const rotated = makeSealer({ current: other, previous: key });
    const blob = sealer.seal('kept', place);
    expect(rotated.open(blob, place)).toBe('kept');
    expect([rotated.isCurrent(blob), sealer.isCurrent(blob)]).toEqual([false, true]);
    expect(sealedWith(rotated.seal('new', place))?.keyId).toBe(keyId(other));
    expect(() => sealer.open(rotated.seal('new', place), place)).toThrow(/unknown master key/);
  });

  it('opens on a node that has the key as its next one, which seals with its current key', () => {
    const waiting = makeSealer({ current: other, next: key });
    expect(waiting.open(sealer.seal('early', place), place)).toBe('early');
    expect(sealedWith(waiting.seal('x', place))?.keyId).toBe(keyId(other));
  });

  it('does not open in another context, or for another purpose', () => {
    const blob = sealer.seal('x', place);
    expect(() => sealer.open(blob, placeOf('device/0192/2'))).toThrow(SealBroken);
    expect(() => sealer.open(blob, placeOf(place.aad, 'csrf tokens'))).toThrow(SealBroken);
  });

  it('is not current once sub-keys are used, and does not open in the other form', () => {
    const blob = makeSealer({ current: key }, () => false).seal('x', place);
    expect(sealer.isCurrent(blob)).toBe(false);
    expect(() => sealer.open(blob.replace(/^s1/, 's2'), place)).toThrow(SealBroken);
  });

  it('does not open after any change', () => {
    const blob = sealer.seal('secret', place);
    const [form, id, body = ''] = blob.split('.');
    const bytes = Buffer.from(body, 'base64url');
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] as number) ^ 1;
      expect(() => sealer.open([form, id, changed.toString('base64url')].join('.'), place)).toThrow(SealBroken);
    }
    const short = bytes.subarray(0, 27).toString('base64url');
    for (const text of [
      '',
      'plain',
      `s3.${id}.${body}`,
      `s1.${id}.${body}`,
      `${blob}.x`,
      `s2.${id}`,
      `s2.${id}.${short}`,
    ]) {
      expect(() => sealer.open(text, place)).toThrow(SealBroken);
    }
  });

  it('is unaffected when the caller changes the key afterwards', () => {
    const borrowed = randomBytes(32);
    const kept = makeSealer({ current: borrowed });
    const blob = kept.seal('x', place);
    borrowed.fill(0);
    expect(kept.open(blob, place)).toBe('x');
  });

  it('requires keys of 32 bytes', () => {
    expect(() => makeSealer({ current: randomBytes(16) })).toThrow(RangeError);
    expect(() => makeSealer({ current: key, previous: randomBytes(33) })).toThrow(RangeError);
    expect(() => makeSealer({ current: key, next: randomBytes(31) })).toThrow(RangeError);
  });
});
