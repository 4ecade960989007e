import { hash, X509Certificate } from 'node:crypto';
import type { EpochMs } from '../domain/values.ts';
import { childrenOf, DER, type DerElement, DerError, elementAt, hexOf, rootOf, withTag } from './der.ts';

/*
 * X.509 certificates (RFC 5280) of certificate authorities and devices. Chains have two certificates: a device's is issued by
 * a registered authority itself.
 */

/** Longest certificate of a device in DER, in bytes: it is passed on between nodes. */
export const MAX_DEVICE_CERTIFICATE_BYTES = 3_072;
/** Longest certificate in a request, in characters of PEM. */
export const MAX_CERTIFICATE_TEXT = 8_192;

/** A parsed certificate. Nothing in it is verified. */
export interface Certificate {
  x509: X509Certificate;
  /** SHA-256 of its DER, hex in lower case. */
  fingerprint: string;
  /** Hex in upper case; a negative one begins with `-`. */
  serialNumber: string;
  /** SHA-256 (hex) of the distinguished names in DER, and of the public key, whatever its encoding. */
  issuerHash: string;
  subjectHash: string;
  publicKeyHash: string;
  /** The subject in one line, for people. */
  subject: string;
  /** The common name of the subject; null unless there is exactly one, in a usual string type. */
  commonName: string | null;
  notBefore: EpochMs;
  notAfter: EpochMs;
  /** Of its signature, in bytes. */
  signatureLength: number;
  /** `basicConstraints` has `cA`. */
  isAuthority: boolean;
  /** Bits of `keyUsage`, the first one is the highest of the byte; null without the extension. */
  keyUsage: number | null;
  /** Object identifiers of `extKeyUsage`, content in hex; null without the extension. */
  extendedKeyUsage: readonly string[] | null;
  /** Why the key is not accepted, or null. */
  keyProblem: string | null;
  /** Whether a critical extension is one that is not checked here. */
  hasUnknownCritical: boolean;
}

/** Content of object identifiers, in hex. */
const OID = {
  commonName: '550403',
  keyUsage: '551d0f',
  subjectAltName: '551d11',
  basicConstraints: '551d13',
  extendedKeyUsage: '551d25',
  anyExtendedKeyUsage: '551d2500',
  clientAuth: '2b06010505070302',
} as const;
const KNOWN_EXTENSIONS: ReadonlySet<string> = new Set([
  ...[OID.keyUsage, OID.subjectAltName, OID.basicConstraints, OID.extendedKeyUsage],
]);
const NAME_TYPES: ReadonlySet<number> = new Set([DER.UTF8_STRING, DER.PRINTABLE_STRING, DER.IA5_STRING]);

const DIGITAL_SIGNATURE = 0x80;
const KEY_CERT_SIGN = 0x04;

/** RSA PKCS #1 v1.5 and ECDSA with SHA-256, 384 and 512, and Ed25519, each with the type of its keys. */
const SIGNATURE_ALGORITHMS: ReadonlyMap<string | undefined, 'rsa' | 'ec' | 'ed25519'> = new Map([
  ...['1.2.840.113549.1.1.11', '1.2.840.113549.1.1.12', '1.2.840.113549.1.1.13'].map((oid) => [oid, 'rsa'] as const),
  ...['1.2.840.10045.4.3.2', '1.2.840.10045.4.3.3', '1.2.840.10045.4.3.4'].map((oid) => [oid, 'ec'] as const),
  ['1.3.101.112', 'ed25519'],
]);
const CURVES: ReadonlySet<string | undefined> = new Set(['prime256v1', 'secp384r1', 'secp521r1']);
const MIN_RSA_BITS = 2_048;
/** Verifying with longer keys would take milliseconds. */
const MAX_RSA_BITS = 8_192;
/** Usual exponents are 3 and 65537. Verifying takes a time that grows with the length of the exponent. */
const MAX_RSA_EXPONENT = 2n ** 32n - 1n;
const MAX_SUBJECT_LENGTH = 512;

/** Parses one certificate in PEM or DER; null if it is malformed, or PEM with anything else but white space. */
export function parseCertificate(input: string | Buffer): Certificate | null {
  if (typeof input === 'string' && !PEM.test(input)) return null;
  try {
    return read(new X509Certificate(input));
  } catch {
    return null;
  }
}

const PEM = /^\s*-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\s*$/;

function read(x509: X509Certificate): Certificate {
  const bytes = x509.raw;
  const [tbs, , signature] = childrenOf(bytes, rootOf(bytes, DER.SEQUENCE));
  const signatureBits = withTag(signature, DER.BIT_STRING);
  const members = childrenOf(bytes, withTag(tbs, DER.SEQUENCE));
  // Version 1 has no version member, and no extensions.
  const [, , issuer, , subject, publicKey, ...rest] = members[0]?.tag === DER.CONTEXT_0 ? members.slice(1) : members;
  // Throws for a key that cannot be decoded.
  const keyProblem = keyProblemOf(x509);
  const extensions = rest.find(({ tag }) => tag === DER.CONTEXT_3);
  const digestOf = ({ from, end }: DerElement) => hash('sha256', bytes.subarray(from, end));
  return {
    x509,
    fingerprint: hash('sha256', bytes),
    serialNumber: serialNumberOf(x509.serialNumber) ?? x509.serialNumber,
    issuerHash: digestOf(withTag(issuer, DER.SEQUENCE)),
    subjectHash: digestOf(withTag(subject, DER.SEQUENCE)),
    publicKeyHash: keyProblem === null ? keyHashOf(x509) : digestOf(withTag(publicKey, DER.SEQUENCE)),
    subject: (x509.subject ?? '').replaceAll('\n', ', ').slice(0, MAX_SUBJECT_LENGTH),
    commonName: commonNameIn(bytes, withTag(subject, DER.SEQUENCE)),
    notBefore: x509.validFromDate.getTime(),
    notAfter: x509.validToDate.getTime(),
    keyProblem,
    // The first byte of a BIT STRING is the number of unused bits.
    signatureLength: signatureBits.end - signatureBits.start - 1,
    ...extensionsIn(bytes, extensions),
  };
}

function commonNameIn(bytes: Buffer, name: DerElement): string | null {
  const values: string[] = [];
  for (const relative of childrenOf(bytes, name)) {
    for (const attribute of childrenOf(bytes, withTag(relative, DER.SET))) {
      const [type, value] = childrenOf(bytes, withTag(attribute, DER.SEQUENCE));
      if (hexOf(bytes, withTag(type, DER.OBJECT_IDENTIFIER)) !== OID.commonName) continue;
      if (value === undefined || !NAME_TYPES.has(value.tag)) return null;
      values.push(
        new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes.subarray(value.start, value.end)),
      );
    }
  }
  return values.length === 1 ? (values[0] ?? null) : null;
}

type Extensions = Pick<Certificate, 'isAuthority' | 'keyUsage' | 'extendedKeyUsage' | 'hasUnknownCritical'>;

function extensionsIn(bytes: Buffer, explicit: DerElement | undefined): Extensions {
  const found: Extensions = { isAuthority: false, keyUsage: null, extendedKeyUsage: null, hasUnknownCritical: false };
  if (explicit === undefined) return found;
  const [list] = childrenOf(bytes, explicit);
  const seen = new Set<string>();
  for (const extension of childrenOf(bytes, withTag(list, DER.SEQUENCE))) {
    const parts = childrenOf(bytes, withTag(extension, DER.SEQUENCE));
    const oid = hexOf(bytes, withTag(parts[0], DER.OBJECT_IDENTIFIER));
    if (seen.has(oid)) throw new DerError('an extension is repeated');
    seen.add(oid);
    const isCritical = parts[1]?.tag === DER.BOOLEAN && bytes[parts[1].start] !== 0;
    const value = withTag(parts.at(-1), DER.OCTET_STRING);
    if (isCritical && !KNOWN_EXTENSIONS.has(oid)) found.hasUnknownCritical = true;
    if (oid === OID.basicConstraints) {
      const [authority] = childrenOf(bytes, withTag(elementAt(bytes, value.start, value.end), DER.SEQUENCE));
      found.isAuthority = authority?.tag === DER.BOOLEAN && bytes[authority.start] !== 0;
    } else if (oid === OID.keyUsage) {
      const bits = withTag(elementAt(bytes, value.start, value.end), DER.BIT_STRING);
      // The first byte of a BIT STRING is the number of unused bits.
      found.keyUsage = bits.end - bits.start < 2 ? 0 : (bytes[bits.start + 1] as number);
    } else if (oid === OID.extendedKeyUsage) {
      const purposes = withTag(elementAt(bytes, value.start, value.end), DER.SEQUENCE);
      found.extendedKeyUsage = childrenOf(bytes, purposes).map((purpose) => hexOf(bytes, purpose));
    }
  }
  return found;
}

/**
 * A serial number in hex as `Certificate.serialNumber` has it: whole bytes, without leading zeros. Null for other text, and
 * for more than 20 octets (RFC 5280, section 4.1.2.2).
 */
export function serialNumberOf(text: string): string | null {
  const digits = text.replaceAll(':', '').replace(/^0+(?=.)/, '');
  if (!/^[0-9a-f]{1,40}$/i.test(digits)) return null;
  return (digits.length % 2 === 0 ? digits : `0${digits}`).toUpperCase();
}

/** Why a certificate cannot be that of a registered authority, or null. */
export function authorityProblem(authority: Certificate, now: EpochMs): string | null {
  if (!authority.isAuthority) return 'is not a CA certificate: basicConstraints must have CA:TRUE';
  if (authority.keyUsage !== null && (authority.keyUsage & KEY_CERT_SIGN) === 0)
    return 'must not sign certificates: keyUsage lacks keyCertSign';
  if (isNameEmpty(authority)) return 'has an empty subject';
  return commonProblem(authority, now);
}

/** Why a certificate cannot sign in a device, or null. Its issuer is not checked. */
export function deviceCertificateProblem(certificate: Certificate, now: EpochMs): string | null {
  const { isAuthority, keyUsage, extendedKeyUsage } = certificate;
  if (isAuthority) return 'is a CA certificate';
  if (keyUsage !== null && (keyUsage & DIGITAL_SIGNATURE) === 0) return 'keyUsage lacks digitalSignature';
  const isForClients =
    extendedKeyUsage === null ||
    extendedKeyUsage.some((oid) => oid === OID.clientAuth || oid === OID.anyExtendedKeyUsage);
  // It could not be revoked.
  if (serialNumberOf(certificate.serialNumber) === null)
    return 'has a serial number that is negative or longer than 20 octets';
  return isForClients ? commonProblem(certificate, now) : 'extendedKeyUsage lacks clientAuth';
}

/** Whether `authority` signed the certificate: by its name and by its key. It may still be unfit for either role. */
export function isIssuedBy(certificate: Certificate, authority: Certificate): boolean {
  if (certificate.issuerHash !== authority.subjectHash) return false;
  // A key that is not supported is not used, because verifying with it may be slow.
  if (authority.keyProblem !== null || !canHaveSigned(authority, certificate)) return false;
  try {
    return certificate.x509.checkIssued(authority.x509) && certificate.x509.verify(authority.x509.publicKey);
  } catch {
    return false;
  }
}

/** Whether the signature has the algorithm and length of the authority's key: one that has not need not be verified. */
function canHaveSigned(authority: Certificate, { x509, signatureLength }: Certificate): boolean {
  const { asymmetricKeyType, asymmetricKeyDetails } = authority.x509.publicKey;
  if (SIGNATURE_ALGORITHMS.get(x509.signatureAlgorithmOid) !== asymmetricKeyType) return false;
  // RFC 8017, section 8.2.2: a signature is as long as the modulus.
  return asymmetricKeyType !== 'rsa' || signatureLength === Math.ceil((asymmetricKeyDetails?.modulusLength ?? 0) / 8);
}

function commonProblem(certificate: Certificate, now: EpochMs): string | null {
  if (certificate.hasUnknownCritical) return 'has a critical extension that is not supported';
  if (!SIGNATURE_ALGORITHMS.has(certificate.x509.signatureAlgorithmOid))
    return 'has an unsupported signature algorithm: RSA (PKCS #1 v1.5) or ECDSA with SHA-256, 384 or 512, or Ed25519';
  if (certificate.keyProblem !== null) return certificate.keyProblem;
  if (now < certificate.notBefore) return 'is not valid yet';
  return now > certificate.notAfter ? 'has expired' : null;
}

function keyProblemOf(x509: X509Certificate): string | null {
  const { asymmetricKeyType, asymmetricKeyDetails } = x509.publicKey;
  const { modulusLength = 0, publicExponent = 0n, namedCurve } = asymmetricKeyDetails ?? {};
  switch (asymmetricKeyType) {
    case 'rsa':
      if (modulusLength < MIN_RSA_BITS || publicExponent < 3n) return 'has a weak key: RSA needs 2048 bits or more';
      if (publicExponent > MAX_RSA_EXPONENT) return 'has an RSA key with a public exponent of more than 32 bits';
      return modulusLength > MAX_RSA_BITS ? 'has an RSA key of more than 8192 bits' : null;
    case 'ec':
      return CURVES.has(namedCurve) ? null : 'has a key on an unsupported curve: P-256, P-384 and P-521 are supported';
    case 'ed25519':
      return null;
    default:
      return 'has an unsupported key: RSA, EC and Ed25519 are supported';
  }
}

/** The same for each encoding of a key: a point of a curve may be compressed. The members are those of RFC 7638, section 3.2. */
function keyHashOf(x509: X509Certificate): string {
  const { crv, e, kty, n, x, y } = x509.publicKey.export({ format: 'jwk' });
  return hash('sha256', JSON.stringify({ crv, e, kty, n, x, y }));
}

/** SHA-256 of an empty SEQUENCE. */
const EMPTY_NAME = hash('sha256', Buffer.from([DER.SEQUENCE, 0]));
const isNameEmpty = ({ subjectHash }: Certificate): boolean => subjectHash === EMPTY_NAME;
