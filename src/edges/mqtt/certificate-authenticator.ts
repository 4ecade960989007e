import { LRUCache } from 'lru-cache';
import { referenceOf } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import { type DeviceCa, MAX_DEVICE_CERTIFICATES, MAX_TRIED_CAS } from '../../domain/device-ca.ts';
import type { Log } from '../../domain/log.ts';
import { isUuid } from '../../domain/uuid.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import {
  type RegistrationServices,
  registerByCertificate,
} from '../../operations/device-cas/certificate-registration.ts';
import { displayName } from '../../operations/inputs.ts';
import {
  authorityProblem,
  type Certificate,
  deviceCertificateProblem,
  isIssuedBy,
  parseCertificate,
} from '../../protocol/certificate.ts';
import { SESSION_LIFE_MS } from '../../protocol/constants.ts';
import { isDeviceActive, isSessionKeyValid, isTenantActive } from './device-access.ts';
import type { DeviceAuthenticator, SessionCloudKeys } from './device-authenticator.ts';
import type { SessionCertificate } from './device-session.ts';

/** A device that signs in with its certificate. */
export interface CertificateSignIn {
  /** DER; the client has proved to have its key. */
  certificate: Buffer;
  /** Identifier of the new session. */
  sessionId: string;
  /** The client identifier of the CONNECT. */
  clientId: string;
  /** None, or the id of the tenant: then the CAs of that tenant alone are tried. */
  username: string | undefined;
  address: string;
}

/** The identity of a session that a certificate opened. */
export interface CertifiedDevice {
  deviceId: Uuid;
  tenantId: Uuid;
  clientId: string;
  sentClientId: string;
  keyVersion: number;
  key: null;
  certificate: SessionCertificate;
  cloudKeys: SessionCloudKeys;
  expiresAt: EpochMs;
}

export interface CertificateAuthenticatorParts {
  services: RegistrationServices;
  devices: Pick<DeviceAuthenticator, 'findWithCloudKeys'>;
  log: Log;
}

const MAX_PARSED_AUTHORITIES = 1_000;

/** Client identifiers are part of signed messages, in which `|` separates the fields. */
const CLIENT_ID = /^[ -{}~]{0,128}$/;

/**
 * Authenticates devices by certificates of registered CAs (decision 56). Everything is read from the store, so a
 * revocation on any node applies to the next sign-in.
 */
export class CertificateAuthenticator {
  readonly #parts: CertificateAuthenticatorParts;
  /** Parsed certificates of CAs, by fingerprint. They do not change; which CAs are registered is read from the store. */
  readonly #authorities = new LRUCache<string, Certificate>({ max: MAX_PARSED_AUTHORITIES });

  constructor(parts: CertificateAuthenticatorParts) {
    this.#parts = parts;
  }

  sizes(): CollectionSizes {
    return { mqtt_parsed_authorities: this.#authorities.size };
  }

  /** Null if the sign-in is refused, without a reason. */
  async authenticate(signIn: CertificateSignIn): Promise<CertifiedDevice | null> {
    const certificate = CLIENT_ID.test(signIn.clientId) ? parseCertificate(signIn.certificate) : null;
    const ca = certificate === null ? null : await this.#issuerOf(signIn, certificate);
    if (certificate === null || ca === null) return null;
    const identity = await this.#identify(certificate, ca, signIn);
    if (typeof identity !== 'string') return identity;
    this.#recordRefusal(certificate, ca, signIn, identity);
    return null;
  }

  /** The CA whose key signed the certificate. At most one can have it: a public key is registered once. */
  async #issuerOf({ username }: CertificateSignIn, certificate: Certificate): Promise<IssuingCa | null> {
    if (username !== undefined && !isUuid(username)) return null;
    const of = { tenantId: username?.toLowerCase() ?? null, most: MAX_TRIED_CAS };
    for (const ca of await this.#parts.services.store.deviceCas.bySubject(certificate.issuerHash, of)) {
      const authority = this.#authorityOf(ca);
      if (authority !== null && isIssuedBy(certificate, authority)) return { ...ca, authority };
    }
    return null;
  }

  #authorityOf({ fingerprint, certificate }: DeviceCa): Certificate | null {
    const known = this.#authorities.get(fingerprint);
    if (known !== undefined) return known;
    const authority = parseCertificate(certificate);
    if (authority !== null) this.#authorities.set(fingerprint, authority);
    return authority;
  }

  /** The device, or why the certificate is refused. */
  async #identify(
    certificate: Certificate,
    ca: IssuingCa,
    signIn: CertificateSignIn,
  ): Promise<CertifiedDevice | string> {
    const { services } = this.#parts;
    const { clock, store } = services;
    const now = referenceOf(clock);
    const { tenantId } = ca;
    if (ca.status !== 'active') return 'the CA is inactive';
    const problem = deviceCertificateProblem(certificate, now) ?? authorityProblem(ca.authority, now);
    if (problem !== null) return problem;
    const { commonName, serialNumber, fingerprint, notAfter } = certificate;
    if (commonName === null) return 'the subject has no common name, or several';
    if (!displayName.safeParse(commonName).success)
      return 'the common name is blank, too long or has control characters';
    const readTenant = () => services.actors.read<TenantContext>({ kind: 'tenant', id: tenantId });
    if (!isTenantActive(await readTenant())) return 'the tenant is not active';
    const bound = await this.#boundDevice(ca, commonName, { address: signIn.address, serialNumber });
    if (!bound.ok) return bound.reason;
    const deviceId = bound.deviceId;
    const { device, cloudKeys, revokedAt } = await this.#parts.devices.findWithCloudKeys(deviceId);
    if (device === null || cloudKeys === null || !isDeviceActive(device, tenantId)) return 'the device is not active';
    const used = { caId: ca.id, serialNumber, tenantId, deviceId, commonName, fingerprint, notAfter };
    const kept = { since: revokedAt, most: MAX_DEVICE_CERTIFICATES };
    const stored = await store.deviceCas.recordCertificate(used, clock.now(), kept);
    if (stored.fingerprint !== fingerprint) return 'another certificate has the serial number';
    if (stored.deviceId !== deviceId) return 'the certificate belongs to another device';
    if (stored.revokedAt !== null) return 'the certificate is revoked';
    // A device is reinstated without the certificates that it had.
    if ((stored.firstUsedAt ?? 0) <= revokedAt) return 'the device was revoked after the first use of the certificate';
    const { keyVersion } = device.snapshot.context.fixed;
    // The device or tenant may have been revoked or suspended during the store calls.
    const [deviceNow, tenantNow] = await Promise.all([
      services.actors.read<DeviceContext>({ kind: 'device', id: deviceId }),
      readTenant(),
    ]);
    if (!isTenantActive(tenantNow)) return 'the tenant is not active';
    if (!isSessionKeyValid(deviceNow, { tenantId, keyVersion })) return 'the device is not active';
    return {
      ...{ deviceId, tenantId, clientId: signIn.sessionId, sentClientId: signIn.clientId, keyVersion, key: null },
      ...{ certificate: { caId: ca.id, serialNumber }, cloudKeys },
      expiresAt: Math.min(clock.now() + SESSION_LIFE_MS, notAfter, ca.authority.notAfter),
    };
  }

  async #boundDevice(
    ca: IssuingCa,
    commonName: string,
    client: { address: string; serialNumber: string },
  ): Promise<{ ok: true; deviceId: Uuid } | { ok: false; reason: string }> {
    const { services } = this.#parts;
    const bound = await services.store.deviceCas.subject(ca.id, commonName);
    if (bound !== null) return { ok: true, deviceId: bound.deviceId };
    if (ca.registration === null) return { ok: false, reason: 'the common name is bound to no device' };
    // A revoked certificate must not register a device, although nothing else is known of it.
    if (await this.#isRevoked(ca.id, client.serialNumber)) return { ok: false, reason: 'the certificate is revoked' };
    const registered = await registerByCertificate(services, ca, commonName, client);
    return registered.ok
      ? { ok: true, deviceId: registered.value }
      : { ok: false, reason: `no device is registered: ${registered.refusal.detail}` };
  }

  async #isRevoked(caId: Uuid, serialNumber: string): Promise<boolean> {
    const known = await this.#parts.services.store.deviceCas.certificate(caId, serialNumber);
    return known !== null && known.revokedAt !== null;
  }

  /** Only the holder of a certificate of the CA can cause it. At most two rows a minute for a CA: the first, and how many followed. */
  #recordRefusal({ serialNumber }: Certificate, ca: DeviceCa, { address }: CertificateSignIn, reason: string): void {
    const { services, log } = this.#parts;
    log.info({ ca: ca.id, serialNumber, address, reason }, 'mqtt sign-in with a certificate refused');
    services.audit.recordRepeatedRefusal(
      {
        ...{ tenantId: ca.tenantId, by: ca.createdBy, key: null, via: 'mqtt', action: 'signInByCertificate' },
        ...{ subject: `ca:${ca.id}`, requestId: services.newId(), address },
        client: `certificate ${serialNumber}: ${reason}`,
      },
      'UNAUTHENTICATED',
    );
  }
}

type IssuingCa = DeviceCa & { authority: Certificate };
