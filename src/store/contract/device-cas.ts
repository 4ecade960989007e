import type { BoundSubject, DeviceCa, DeviceCertificate } from '../../domain/device-ca.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';

/** A code that the next CA of a tenant proves its key with. */
export interface CaVerification {
  tenantId: Uuid;
  /** SHA-256 of the code, hex. */
  codeHash: string;
  createdBy: Uuid;
  expiresAt: EpochMs;
}

/** `no_code`: it is unknown, used or expired. `taken`: a CA with this public key is registered. */
export type CaInsertion = 'inserted' | 'no_code' | 'taken' | 'same_subject';

/** `no_code`: it is unknown, used or expired. `unknown`: the tenant has no such CA with this subject. */
export type CaRenewal = 'renewed' | 'no_code' | 'unknown';

/** A certificate that signs in a device. */
export interface UsedCertificate {
  caId: Uuid;
  serialNumber: string;
  tenantId: Uuid;
  deviceId: Uuid;
  commonName: string;
  fingerprint: string;
  notAfter: EpochMs;
}

export interface CertificateRevocation {
  tenantId: Uuid;
  caId: Uuid;
  serialNumber: string;
  revokedAt: EpochMs;
  revokedBy: Uuid;
  reason: string | null;
}

/** A person unbinds a common name from a device. */
export interface SubjectUnbinding {
  caId: Uuid;
  commonName: string;
  tenantId: Uuid;
  deviceId: Uuid;
  unboundBy: Uuid;
  unboundAt: EpochMs;
}

/** Certificate authorities of tenants, and the certificates of their devices. */
export interface DeviceCaStore {
  /** Of the tenant's codes, the `most` that are valid for longest are kept; those that have ended at `now` are deleted. */
  beginVerification(verification: CaVerification, most: number, now: EpochMs): Promise<void>;
  /** Uses up the code, whatever the answer, except for `same_subject`: the subject is that of `mostOfSubject` CAs of the tenant. */
  insert(
    ca: DeviceCa,
    code: { codeHash: string; now: EpochMs; mostOfSubject: number },
    idempotency?: IdempotencyRow | null,
  ): Promise<CaInsertion>;
  /**
   * Replaces certificate, fingerprint and end of validity of the tenant's CA that has this id and subject. Uses up the code,
   * whatever the answer.
   */
  renew(
    ca: Pick<DeviceCa, 'id' | 'tenantId' | 'subjectHash' | 'certificate' | 'fingerprint' | 'notAfter'>,
    code: { codeHash: string; now: EpochMs },
    idempotency?: IdempotencyRow | null,
  ): Promise<CaRenewal>;
  /** Oldest first. */
  list(tenantId: Uuid): Promise<DeviceCa[]>;
  find(tenantId: Uuid, id: Uuid): Promise<DeviceCa | null>;
  count(tenantId: Uuid): Promise<number>;
  /** The `most` oldest CAs with this subject, of a tenant or, for null, of all. */
  bySubject(subjectHash: string, { tenantId, most }: { tenantId: Uuid | null; most: number }): Promise<DeviceCa[]>;
  /** Writes name, status and registration rule. False if there is no such CA. */
  update(ca: DeviceCa): Promise<boolean>;
  /** Keeps subjects and certificates until they are pruned. `at` is the time. False if there is no such CA. */
  delete(tenantId: Uuid, id: Uuid, at: EpochMs): Promise<boolean>;

  subject(caId: Uuid, commonName: string): Promise<BoundSubject | null>;
  /** Binds a subject; false if it is bound to another device than `replaced`. */
  bind(subject: BoundSubject, replaced: Uuid | null): Promise<boolean>;
  /**
   * Removes a binding, and what is stored of the device's certificates with this subject, so that they sign in another device
   * that it is bound to. Revoked certificates are kept, and those that the device has first used up to `since`. False if the
   * subject is not bound to the device.
   */
  unbind(unbinding: SubjectUnbinding, since: EpochMs): Promise<boolean>;
  /** Whether a person has unbound the subject and nothing has bound it since. */
  isUnbound(caId: Uuid, commonName: string): Promise<boolean>;
  /** Number of subjects that the registration rule of a CA has bound. */
  countRegistered(caId: Uuid): Promise<number>;
  /** Number of devices that a subject of a CA is bound to. */
  countDevices(caId: Uuid): Promise<number>;
  /** Of a device, by time. */
  subjectsOf(deviceId: Uuid): Promise<BoundSubject[]>;

  /**
   * Stores the first use of a certificate, and completes one that was revoked before; returns it as it is stored. Of the
   * certificates that the device has used since `since` and that are not revoked, the newest `most` are kept.
   */
  recordCertificate(
    certificate: UsedCertificate,
    at: EpochMs,
    { since, most }: { since: EpochMs; most: number },
  ): Promise<DeviceCertificate>;
  certificate(caId: Uuid, serialNumber: string): Promise<DeviceCertificate | null>;
  /** Of a device, the newest use first. */
  certificatesOf(deviceId: Uuid): Promise<DeviceCertificate[]>;
  /** `already` if it was revoked before; `full` if `most` certificates of the CA are. Expired ones are forgotten. */
  revoke(revocation: CertificateRevocation, most: number): Promise<'revoked' | 'already' | 'full'>;
  /** Whether a certificate may stay connected: its CA is active, it is not revoked, and its subject is bound to its device. */
  isInForce(caId: Uuid, serialNumber: string): Promise<boolean>;
}
