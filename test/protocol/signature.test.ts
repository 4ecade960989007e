import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { type SigningAlg, signingAlgs } from '../../src/domain/device-key.ts';
import {
  cloudPublicKey,
  isPublicKey,
  newDeviceSecret,
  newNonce,
  publicKeyFromSeed,
  signingKey,
  signText,
  verifyingKey,
  verifyText,
} from '../../src/protocol/signature.ts';
import { fc } from '../support/properties.ts';

const secret = 'xoyWPVo6bn4NumteC5zehYZQ1Hp1evxiRWejXgC8k7o';
const checkerOf = (alg: SigningAlg, of: string) => verifyingKey(alg, alg === 'ed25519' ? publicKeyFromSeed(of) : of);

describe('newDeviceSecret', () => {
  it('is 32 bytes in base64url without padding, and differs each time', () => {
    const secrets = Array.from({ length: 50 }, newDeviceSecret);
    expect(new Set(secrets).size).toBe(50);
    for (const text of secrets) {
      expect(text).toMatch(/^[A-Za-z0-9_-]{43}$/);
      expect(Buffer.from(text, 'base64url')).toHaveLength(32);
      for (const alg of signingAlgs) expect(signingKey(alg, text).alg).toBe(alg);
    }
  });
});

describe('newNonce', () => {
  it('is 12 bytes in base64url, and differs each time', () => {
    expect(newNonce()).toMatch(/^[A-Za-z0-9_-]{16}$/);
    expect(newNonce()).not.toBe(newNonce());
  });
});

describe('signing', () => {
  it('keys HMAC with the ASCII bytes of the secret', () => {
    const expected = createHmac('sha256', secret).update('text').digest('base64url');
    expect(signText(signingKey('hmac-sha256', secret), 'text')).toBe(expected);
  });

  it('signs the UTF-8 bytes of the text', () => {
    const expected = createHmac('sha256', secret).update(Buffer.from('Küche ☀', 'utf8')).digest('base64url');
    expect(signText(signingKey('hmac-sha256', secret), 'Küche ☀')).toBe(expected);
    const { privateKey } = generateKeyPairSync('ed25519');
    const jwk = privateKey.export({ format: 'jwk' });
    const own = sign(null, Buffer.from('Küche ☀', 'utf8'), privateKey).toString('base64url');
    expect(signText(signingKey('ed25519', jwk.d as string), 'Küche ☀')).toBe(own);
  });

  it.each(signingAlgs)('%s: every signature verifies only with its own key, text and algorithm', (alg) => {
    const other = newDeviceSecret();
    const otherAlg = alg === 'ed25519' ? 'hmac-sha256' : 'ed25519';
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const signature = signText(signingKey(alg, secret), text);
        expect(verifyText(checkerOf(alg, secret), text, signature)).toBe(true);
        expect(verifyText(checkerOf(alg, secret), `${text}x`, signature)).toBe(false);
        expect(verifyText(checkerOf(alg, other), text, signature)).toBe(false);
        expect(verifyText(checkerOf(otherAlg, secret), text, signature)).toBe(false);
      }),
      { numRuns: 30 },
    );
  });

  it.each(signingAlgs)('%s: a changed character anywhere makes it invalid', (alg) => {
    const signature = signText(signingKey(alg, secret), 'text');
    const key = checkerOf(alg, secret);
    for (let i = 0; i < signature.length; i++) {
      const changed = signature[i] === 'A' ? 'Q' : 'A';
      expect(verifyText(key, 'text', signature.slice(0, i) + changed + signature.slice(i + 1))).toBe(false);
    }
  });

  it.each(signingAlgs)('%s: malformed signatures are invalid and never throw', (alg) => {
    const signature = signText(signingKey(alg, secret), 'text');
    const key = checkerOf(alg, secret);
    const last = signature.charCodeAt(signature.length - 1);
    const wrong = [
      '',
      'A',
      signature.slice(1),
      signature.slice(0, -1),
      `${signature}A`,
      `${signature}=`,
      `${signature}\n`,
      ` ${signature}`,
      `${signature.slice(0, -1)}=`,
      `${signature.slice(0, -1)}+`,
      `${signature.slice(0, -1)}\u0141`,
      // The same bytes with other unused bits.
      signature.slice(0, -1) + String.fromCharCode(last + 1),
      // Wider characters with the same low bytes.
      String.fromCharCode(...Array.from(signature, (char) => char.charCodeAt(0) + 0x100)),
      Buffer.from(signature, 'base64url').toString('hex'),
      'A'.repeat(signature.length),
    ];
    for (const text of wrong) expect(verifyText(key, 'text', text)).toBe(false);
    fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 100 }), (text) => !verifyText(key, 'text', text)));
  });

  it('a key is hidden when it is printed', () => {
    for (const alg of signingAlgs) {
      const shown = inspect(signingKey(alg, secret), { depth: 9 }) + JSON.stringify(signingKey(alg, secret));
      expect(shown).not.toContain(secret);
    }
  });
});

describe('keys', () => {
  const bad = [
    '',
    secret.slice(1),
    `${secret}A`,
    `${secret}=`,
    `+${secret.slice(1)}`,
    `${secret.slice(0, -1)}p`,
    `\n${secret}`,
    `${secret}\n`,
  ];

  it.each(bad)('%j is not a key', (text) => {
    const words = /32 bytes in base64url/;
    for (const alg of signingAlgs) {
      expect(() => signingKey(alg, text)).toThrow(words);
      expect(() => verifyingKey(alg, text)).toThrow(words);
    }
    expect(() => publicKeyFromSeed(text)).toThrow(words);
    expect(isPublicKey(text)).toBe(false);
  });

  it('the public key is the raw public key of the seed', () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const seed = privateKey.export({ format: 'jwk' }).d as string;
    const raw = publicKey.export({ format: 'jwk' }).x as string;
    expect(publicKeyFromSeed(seed)).toBe(raw);
    expect(cloudPublicKey(signingKey('ed25519', seed))).toBe(raw);
    expect(cloudPublicKey({ alg: 'ed25519', material: privateKey })).toBe(raw);
    expect(isPublicKey(raw)).toBe(true);
  });

  it('points of small order, which verify forged signatures, are not public keys', () => {
    const weak = [
      '0000000000000000000000000000000000000000000000000000000000000000',
      '0100000000000000000000000000000000000000000000000000000000000000',
      '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
      'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
      'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
      'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
      'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    ];
    for (const hex of weak) {
      const point = Buffer.from(hex, 'hex');
      expect(isPublicKey(point.toString('base64url'))).toBe(false);
      point[31] = (point[31] as number) | 0x80;
      expect(isPublicKey(point.toString('base64url'))).toBe(false);
      point[15] = (point[15] as number) ^ 1;
      expect(isPublicKey(point.toString('base64url'))).toBe(true);
    }
  });
});
