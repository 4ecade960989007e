import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it, vi } from 'vitest';
import {
  authorityProblem,
  type Certificate,
  deviceCertificateProblem,
  isIssuedBy,
  parseCertificate,
  serialNumberOf,
} from '../../src/protocol/certificate.ts';
import {
  around,
  attribute,
  CERT_SIGN,
  type CertificateOptions,
  CLIENT_AUTH,
  ecKeys,
  extension,
  issue,
  makeAuthority,
  makeCertificate,
  nameOf,
  rsaKeys,
  SERVER_AUTH,
  SIGNATURE,
  type TestCertificate,
  type TestKeys,
  tlv,
} from '../support/certificates.ts';
import { fc } from '../support/properties.ts';

const NOW = Date.UTC(2026, 5, 1);
const authority = makeAuthority(around(NOW));
const parsed = ({ der }: Pick<TestCertificate, 'der'>): Certificate => {
  const certificate = parseCertificate(der);
  if (certificate === null) throw new Error('not parsed');
  return certificate;
};
const ca = parsed(authority);
const leaf = (options: CertificateOptions = {}) => parsed(issue(authority, 'lamp-1', { ...around(NOW), ...options }));
const problemOf = (options: CertificateOptions) => deviceCertificateProblem(leaf(options), NOW);
const caProblemOf = (options: CertificateOptions) =>
  authorityProblem(parsed(makeAuthority({ ...around(NOW), ...options })), NOW);
const rsa = (modulusLength: number, publicExponent = 65_537) =>
  generateKeyPairSync('rsa', { modulusLength, publicExponent });

describe('a certificate', () => {
  it('is parsed from DER and from PEM', () => {
    const one = issue(authority, 'lamp-1', { ...around(NOW), serial: Buffer.from([0x0a, 0xbc]) });
    const certificate = parsed(one);
    expect(certificate).toMatchObject({
      ...{ commonName: 'lamp-1', serialNumber: '0ABC', isAuthority: false, keyUsage: SIGNATURE },
      ...{ extendedKeyUsage: [CLIENT_AUTH], hasUnknownCritical: false, subject: 'CN=lamp-1' },
      ...{ notBefore: NOW - 3_600_000, notAfter: NOW + 3_600_000 },
      fingerprint: certificate.x509.fingerprint256.replaceAll(':', '').toLowerCase(),
      issuerHash: ca.subjectHash,
    });
    expect(parseCertificate(one.pem)?.fingerprint).toBe(certificate.fingerprint);
  });

  it('is one in PEM, and nothing else', () => {
    expect(parseCertificate(`\n${authority.pem}\n`)).not.toBeNull();
    for (const text of ['', 'x', authority.pem + authority.pem, `text\n${authority.pem}`, authority.pem.slice(0, 200)])
      expect([text.slice(0, 20), parseCertificate(text)]).toEqual([text.slice(0, 20), null]);
    expect(parseCertificate(authority.der.subarray(0, -1))).toBeNull();
  });

  it.each([
    ['several', nameOf(attribute('a'), attribute('b'))],
    ['none', nameOf(attribute('Company', '55040a'))],
    ['one in a string type that is read in several ways', nameOf(attribute('lamp', '550403', 0x14))],
  ])('whose subject has %s has no common name', (_, name) => {
    expect(parsed(makeCertificate({ name })).commonName).toBeNull();
  });

  it('keeps a common name that looks like several attributes', () => {
    expect(leaf({ commonName: 'x\nCN=lamp-2' }).commonName).toBe('x\nCN=lamp-2');
  });

  it('with bytes changed is parsed or not, and never throws', () => {
    fc.assert(
      fc.property(fc.nat(authority.der.length - 1), fc.nat(255), (at, byte) => {
        const bytes = Buffer.from(authority.der);
        bytes[at] = byte;
        const certificate = parseCertificate(bytes);
        if (certificate === null) return;
        authorityProblem(certificate, NOW);
        isIssuedBy(certificate, ca);
      }),
    );
  });
});

it('a byte order mark is part of a common name', () => {
  expect(parsed(issue(authority, '\ufefflamp-1', around(NOW))).commonName).toBe('\ufefflamp-1');
});

it('a public key has one hash, also as a compressed point', () => {
  const keys = ecKeys();
  const point = keys.publicKey.export({ format: 'der', type: 'spki' }).subarray(-64);
  const compressed = Buffer.concat([
    Buffer.from('3039301306072a8648ce3d020106082a8648ce3d030107032200', 'hex'),
    Buffer.from([2 + ((point.at(-1) as number) & 1)]),
    point.subarray(0, 32),
  ]);
  const other = { ...keys, publicKey: { export: () => compressed } } as never;
  const [one, two] = [parsed(makeAuthority({ keys })), parsed(makeAuthority({ keys: other }))];
  expect([one.x509.raw.includes(compressed), two.x509.raw.includes(compressed)]).toEqual([false, true]);
  expect(two.publicKeyHash).toBe(one.publicKeyHash);
  expect(ca.publicKeyHash).not.toBe(one.publicKeyHash);
});

describe('a serial number', () => {
  it.each([
    ['4F2A', '4F2A'],
    ['4f:2a', '4F2A'],
    ['004f2a', '4F2A'],
    ['f2a', '0F2A'],
    ['0', '00'],
    ['', null],
    ['xyz', null],
    ['-1', null],
    ['1'.repeat(40), '1'.repeat(40)],
    ['1'.repeat(41), null],
  ])('%s is %s', (text, expected) => {
    expect(serialNumberOf(text)).toBe(expected);
  });
});

describe('the certificate of a CA', () => {
  it.each<[string, CertificateOptions]>([
    ['an EC key', {}],
    ['an RSA key of 2048 bits', { keys: rsa(2_048) }],
    ['an Ed25519 key', { keys: generateKeyPairSync('ed25519') }],
    ['no keyUsage', { keyUsage: null }],
  ])('with %s is accepted', (_, options) => {
    expect(caProblemOf(options)).toBeNull();
  });

  it.each<[string, CertificateOptions, string]>([
    ['without basicConstraints', { authority: null }, 'is not a CA certificate'],
    ['with CA:FALSE', { authority: false }, 'is not a CA certificate'],
    ['without keyCertSign', { keyUsage: SIGNATURE }, 'keyCertSign'],
    ['with an empty subject', { name: nameOf() }, 'empty subject'],
    ['with an RSA key of 1024 bits', { keys: rsa(1_024) }, 'weak key'],
    ['on another curve', { keys: ecKeys('secp256k1') }, 'unsupported curve'],
    ['with a DSA-like key', { keys: generateKeyPairSync('rsa-pss', { modulusLength: 2_048 }) }, 'unsupported'],
    ['with a long exponent', { keys: rsaKeys({ exponent: Buffer.alloc(5, 255) }) }, 'public exponent'],
    ['signed with SHA-1', { keys: rsa(2_048), hash: 'sha1' }, 'signature algorithm'],
    ['that has expired', { notAfter: NOW - 1_000 }, 'has expired'],
    ['that is not valid yet', { notBefore: NOW + 1_000 }, 'not valid yet'],
    ['with a critical extension that is not known', { extensions: [extension('551d1e', true, tlv(0x30))] }, 'critical'],
  ])('%s is refused', (_, options, reason) => {
    expect(caProblemOf(options)).toContain(reason);
  });
});

describe('the certificate of a device', () => {
  it.each<[string, CertificateOptions]>([
    ['for clients', {}],
    ['without extensions', { keyUsage: null, authority: null }],
    ['for servers and clients', { purposes: [SERVER_AUTH, CLIENT_AUTH] }],
    ['for any purpose', { purposes: ['551d2500'] }],
    ['with an extension that is not known and not critical', { extensions: [extension('2a03', false, tlv(0x05))] }],
  ])('%s is accepted', (_, options) => {
    expect(problemOf(options)).toBeNull();
  });

  it.each<[string, CertificateOptions, string]>([
    ['that is a CA', { authority: true, keyUsage: CERT_SIGN | SIGNATURE }, 'is a CA certificate'],
    ['without digitalSignature', { keyUsage: 0x20 }, 'digitalSignature'],
    ['for servers only', { purposes: [SERVER_AUTH] }, 'clientAuth'],
    ['that has expired', { notAfter: NOW - 1_000 }, 'has expired'],
    ['that is not valid yet', { notBefore: NOW + 1_000 }, 'not valid yet'],
    ['with a negative serial number', { serial: Buffer.from([0x80, 1]) }, 'serial number'],
    ['with a serial number of 21 octets', { serial: Buffer.alloc(21, 0x11) }, 'serial number'],
    ['with a weak key', { keys: rsa(1_024) }, 'weak key'],
    ['with a long exponent', { keys: rsaKeys({ exponent: Buffer.alloc(100, 255) }) }, 'public exponent'],
    ['with a critical extension that is not known', { extensions: [extension('2a03', true, tlv(0x05))] }, 'critical'],
  ])('%s is refused', (_, options, reason) => {
    expect(problemOf(options)).toContain(reason);
  });
});

describe('an issuer', () => {
  it('is the CA that signed the certificate', () => {
    expect(isIssuedBy(leaf(), ca)).toBe(true);
  });

  it('is not another CA with the same name', () => {
    expect(isIssuedBy(leaf(), parsed(makeAuthority(around(NOW))))).toBe(false);
  });

  it('is not a CA with the same key and another name', () => {
    expect(isIssuedBy(leaf(), parsed(makeAuthority({ keys: authority.keys, commonName: 'Other' })))).toBe(false);
  });

  it('is not the certificate itself', () => {
    expect(isIssuedBy(parsed(makeCertificate({ commonName: 'Test CA' })), ca)).toBe(false);
  });

  it('not by a key of another type or length, with which it is not verified', () => {
    const [short, long] = [rsaKeys(), rsaKeys({ bits: 3_072 })];
    const ofKeys = (keys: TestKeys) => makeAuthority({ ...around(NOW), keys });
    const unverified: [TestCertificate, TestCertificate][] = [
      [ofKeys(short), ofKeys(long)],
      [ofKeys(long), ofKeys(short)],
      [authority, ofKeys(short)],
      [ofKeys(short), authority],
    ];
    for (const [issuer, other] of unverified) {
      const certificate = parsed(issue(issuer, 'a', around(NOW)));
      const verify = vi.spyOn(certificate.x509, 'verify');
      expect([isIssuedBy(certificate, parsed(other)), verify.mock.calls.length]).toEqual([false, 0]);
      expect([isIssuedBy(certificate, parsed(issuer)), verify.mock.calls.length]).toEqual([true, 1]);
    }
  });

  it('does not sign with SHA-1', () => {
    const weak = makeAuthority({ ...around(NOW), keys: rsa(2_048) });
    expect(isIssuedBy(parsed(issue(weak, 'a', around(NOW))), parsed(weak))).toBe(true);
    expect(isIssuedBy(parsed(issue(weak, 'a', { ...around(NOW), hash: 'sha1' })), parsed(weak))).toBe(false);
  });

  it('is not a device whose certificate it issued', () => {
    const device = issue(authority, 'lamp-1', around(NOW));
    const below = parsed(issue(device, 'lamp-2', around(NOW)));
    expect(isIssuedBy(below, ca)).toBe(false);
    expect(authorityProblem(parsed(device), NOW)).toContain('is not a CA certificate');
  });
});
