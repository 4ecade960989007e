import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign, X509Certificate } from 'node:crypto';

/*
 * Certificates for tests, written in DER without a program: also those that `openssl` does not issue. Keys are P-256, unless
 * the test gives others.
 */

export interface TestKeys {
  privateKey: KeyObject;
  publicKey: KeyObject;
}

export interface TestCertificate {
  pem: string;
  der: Buffer;
  keys: TestKeys;
  /** The subject in DER. */
  name: Buffer;
  commonName: string;
}

export interface CertificateOptions {
  commonName?: string;
  /** The subject in DER, instead of one with `commonName` alone. */
  name?: Buffer;
  keys?: TestKeys;
  /** Default: signed by itself. */
  issuer?: Pick<TestCertificate, 'name' | 'keys'>;
  /** `basicConstraints`: null for none. */
  authority?: boolean | null;
  keyUsage?: number | null;
  /** Object identifiers of `extKeyUsage`, in hex. */
  purposes?: readonly string[];
  /** Further extensions in DER. */
  extensions?: readonly Buffer[];
  notBefore?: number;
  notAfter?: number;
  serial?: Buffer;
  hash?: 'sha256' | 'sha1';
}

export const CLIENT_AUTH = '2b06010505070302';
export const SERVER_AUTH = '2b06010505070301';
export const CERT_SIGN = 0x06;
export const SIGNATURE = 0x80;

const HOUR = 3_600_000;
const lengthOf = (size: number): Buffer =>
  size < 128
    ? Buffer.from([size])
    : size < 256
      ? Buffer.from([0x81, size])
      : Buffer.from([0x82, size >> 8, size & 255]);
export const tlv = (tag: number, ...content: readonly Buffer[]): Buffer => {
  const bytes = Buffer.concat(content);
  return Buffer.concat([Buffer.from([tag]), lengthOf(bytes.length), bytes]);
};
const hex = (text: string): Buffer => Buffer.from(text, 'hex');
const seq = (...content: readonly Buffer[]): Buffer => tlv(0x30, ...content);

/** The relative name of one attribute, a common name by default. */
export const attribute = (text: string, oid = '550403', type = 0x0c): Buffer =>
  tlv(0x31, seq(tlv(0x06, hex(oid)), tlv(type, Buffer.from(text))));
export const nameOf = (...attributes: readonly Buffer[]): Buffer => seq(...attributes);

export const extension = (oid: string, critical: boolean, value: Buffer): Buffer =>
  seq(tlv(0x06, hex(oid)), ...(critical ? [tlv(0x01, Buffer.from([0xff]))] : []), tlv(0x04, value));

const time = (at: number): Buffer =>
  tlv(0x18, Buffer.from(`${new Date(at).toISOString().replaceAll(/[-:T]|\.\d+/g, '')}`));

export const ecKeys = (namedCurve = 'prime256v1'): TestKeys => generateKeyPairSync('ec', { namedCurve });

/** RSA keys; with `exponent`, the public key has this one instead of the real one. */
export function rsaKeys({ bits = 2_048, exponent }: { bits?: number; exponent?: Buffer } = {}): TestKeys {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: bits });
  if (exponent === undefined) return { privateKey, publicKey };
  const key = { ...publicKey.export({ format: 'jwk' }), e: exponent.toString('base64url') };
  return { privateKey, publicKey: createPublicKey({ key, format: 'jwk' }) };
}

export function makeCertificate(options: CertificateOptions = {}): TestCertificate {
  const { commonName = 'Test', keys = ecKeys(), authority = false, keyUsage = null, purposes, serial } = options;
  const { notBefore = Date.UTC(2025, 0, 1), notAfter = Date.UTC(2040, 0, 1), hash = 'sha256' } = options;
  const name = options.name ?? nameOf(attribute(commonName));
  const issuer = options.issuer ?? { name, keys };
  const algorithm = seq(tlv(0x06, hex(oidOf(issuer.keys, hash))));
  const extensions = [
    ...(authority === null
      ? []
      : [extension('551d13', true, seq(...(authority ? [tlv(1, Buffer.from([0xff]))] : [])))]),
    ...(keyUsage === null ? [] : [extension('551d0f', true, tlv(0x03, Buffer.from([0, keyUsage])))]),
    ...(purposes === undefined
      ? []
      : [extension('551d25', false, seq(...purposes.map((purpose) => tlv(0x06, hex(purpose)))))]),
    ...(options.extensions ?? []),
  ];
  const tbs = seq(
    tlv(0xa0, tlv(0x02, Buffer.from([2]))),
    tlv(0x02, serial ?? Buffer.concat([Buffer.from([0x40]), randomBytes(15)])),
    algorithm,
    issuer.name,
    seq(time(notBefore), time(notAfter)),
    name,
    keys.publicKey.export({ format: 'der', type: 'spki' }),
    ...(extensions.length === 0 ? [] : [tlv(0xa3, seq(...extensions))]),
  );
  const signer = issuer.keys.privateKey;
  const signature = sign(signer.asymmetricKeyType === 'ed25519' ? null : hash, tbs, signer);
  const der = seq(tbs, algorithm, tlv(0x03, Buffer.from([0]), signature));
  return { pem: new X509Certificate(der).toString(), der, keys, name, commonName };
}

function oidOf({ privateKey }: TestKeys, hash: 'sha256' | 'sha1'): string {
  switch (privateKey.asymmetricKeyType) {
    case 'ed25519':
      return '2b6570';
    case 'rsa':
      return hash === 'sha1' ? '2a864886f70d010105' : '2a864886f70d01010b';
    default:
      return hash === 'sha1' ? '2a8648ce3d0401' : '2a8648ce3d040302';
  }
}

/** A CA of its own key. */
export const makeAuthority = (options: CertificateOptions = {}): TestCertificate =>
  makeCertificate({ commonName: 'Test CA', authority: true, keyUsage: CERT_SIGN, ...options });

/** A device's certificate, for an hour around `at`. */
export const issue = (issuer: TestCertificate, commonName: string, options: CertificateOptions = {}): TestCertificate =>
  makeCertificate({ commonName, issuer, keyUsage: SIGNATURE, purposes: [CLIENT_AUTH], ...options });

export const around = (at: number): Pick<CertificateOptions, 'notBefore' | 'notAfter'> => ({
  ...{ notBefore: at - HOUR, notAfter: at + HOUR },
});
