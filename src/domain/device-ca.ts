import type { EpochMs, Milliseconds, Uuid } from './values.ts';

// Certificate authorities (CAs) whose certificates sign in devices (decision 56).

/** How long a verification code of a registration is valid. */
export const CA_VERIFICATION_MS: Milliseconds = 24 * 60 * 60 * 1_000;
/** Open verification codes of a tenant. */
export const MAX_CA_VERIFICATIONS = 10;
/** Registered CAs of a tenant that have the same subject. */
export const MAX_CAS_OF_SUBJECT = 4;
/** CAs of all tenants with the same subject that a sign-in without a user name tries, the oldest ones. */
export const MAX_TRIED_CAS = 32;
/** Common names that belong to one device. */
export const MAX_DEVICE_SUBJECTS = 20;
/** Certificates kept for a device, without revoked ones: of older ones it is forgotten that they were used. */
export const MAX_DEVICE_CERTIFICATES = 20;
/** Revoked certificates of a CA that are kept until they expire, or for ever if they were never used. */
export const MAX_REVOKED_CERTIFICATES = 10_000;

export const caStatuses = ['active', 'inactive'] as const;
export type CaStatus = (typeof caStatuses)[number];

/** The rule by which unknown devices with a certificate of the CA are registered. */
export interface CaRegistration {
  homeId: Uuid;
  roomId: Uuid | null;
  deviceType: string;
  /** Common names that are registered, with `*` for any text; null for all. */
  subjectPattern: string | null;
  /** Most devices that the rule registers. */
  maxDevices: number;
  /** The user who set it. The rule applies whatever role the user has later (decision 60). */
  setBy: Uuid;
  /** Missing in rules that an earlier build stored. */
  setAt?: EpochMs;
}

export interface DeviceCa {
  /** Made of tenant and public key: a CA that is registered again has the same one. */
  id: Uuid;
  tenantId: Uuid;
  name: string;
  status: CaStatus;
  /** PEM. */
  certificate: string;
  /** SHA-256 of the certificate, hex; and of its subject and its public key. */
  fingerprint: string;
  subjectHash: string;
  publicKeyHash: string;
  /** The subject, for people. */
  subject: string;
  notAfter: EpochMs;
  /** Null: no device is registered by a certificate. */
  registration: CaRegistration | null;
  createdBy: Uuid;
  createdAt: EpochMs;
}

/** A common name in certificates of a CA, and the one device that it belongs to. */
export interface BoundSubject {
  caId: Uuid;
  commonName: string;
  tenantId: Uuid;
  deviceId: Uuid;
  /** The user who bound it; null if the registration rule did. */
  boundBy: Uuid | null;
  boundAt: EpochMs;
}

/** A certificate that was used or revoked. Before its first use only the serial number is known. */
export interface DeviceCertificate {
  caId: Uuid;
  /** Hex, upper case. */
  serialNumber: string;
  tenantId: Uuid;
  deviceId: Uuid | null;
  commonName: string | null;
  /** SHA-256, hex. */
  fingerprint: string | null;
  notAfter: EpochMs | null;
  firstUsedAt: EpochMs | null;
  revokedAt: EpochMs | null;
  revokedBy: Uuid | null;
  reason: string | null;
}

/** Whether a text matches a pattern in which `*` stands for any text, also none. Takes linear time for each `*`. */
export function matchesPattern(pattern: string, text: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  const last = rest.pop();
  if (last === undefined) return text === pattern;
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length) return false;
  const end = text.length - last.length;
  let at = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found === -1 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}
