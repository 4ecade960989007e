import { type Clock, referenceOf } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import { secretBinding } from '../../domain/device-key.ts';
import { isCanonicalUuid } from '../../domain/uuid.ts';
import type { EpochMs } from '../../domain/values.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import { lastRevocationOf } from '../../operations/device-cas/last-revocation.ts';
import type { CommittedDevice } from '../../operations/devices/device-view.ts';
import type { Services } from '../../operations/operation.ts';
import { SESSION_LIFE_MS } from '../../protocol/constants.ts';
import { isFreshSession, parseSessionToken, type SessionToken, verifySession } from '../../protocol/session-token.ts';
import { newDeviceSecret, type SigningKey, type VerifyingKey, verifyingKey } from '../../protocol/signature.ts';
import { isDeviceActive, isSessionKeyValid, isTenantActive } from './device-access.ts';
import { DeviceLookup, type LiveKey } from './device-lookup.ts';
import { UsedTokenWriter } from './used-token-writer.ts';
import { UsedTokens } from './used-tokens.ts';

/** The credentials in a CONNECT, unchecked. */
export interface ConnectCredentials {
  clientId: string;
  username: string | undefined;
  password: Buffer | undefined;
}

/** An authenticated device, with the key that verified its signature. */
export interface AuthenticatedDevice {
  deviceId: string;
  tenantId: string;
  clientId: string;
  keyVersion: number;
  key: VerifyingKey;
  cloudKeys: SessionCloudKeys;
  expiresAt: EpochMs;
}

/** The keys that sign messages to Ed25519 devices (`DEVICE_SIGNING_KEY`, `DEVICE_SIGNING_KEY_PREVIOUS`). */
export interface CloudSigningKeys {
  current: SigningKey;
  /** Null if there is none, or if only its public half is set: then it is announced and does not sign. */
  previous: SigningKey | null;
}

/**
 * The keys that sign the messages to a device: `first` until a `hello_ack` was written, which announces the others, and
 * `afterHello` from then on.
 */
export interface SessionCloudKeys {
  first: SigningKey;
  afterHello: SigningKey;
}

// Verified against when a device has no keys, so that response times do not reveal which device ids exist.
const DUMMY_KEY = verifyingKey('hmac-sha256', newDeviceSecret());

/**
 * Authenticates devices by the signed token in their CONNECT (contract §4, "Session (layer 1)", "Keys and sessions").
 */
export class DeviceAuthenticator {
  readonly #services: Pick<Services, 'store' | 'actors' | 'open'>;
  readonly #clock: Clock;
  readonly #signingKeys: CloudSigningKeys;
  readonly #devices: DeviceLookup;
  readonly #usedTokens = new UsedTokens();
  readonly #usedTokenWriter: UsedTokenWriter;

  /** `signingKeys` are the service's keys, for devices with Ed25519 keys. */
  constructor(services: Pick<Services, 'store' | 'actors' | 'open' | 'clock'>, signingKeys: CloudSigningKeys) {
    this.#services = services;
    this.#clock = services.clock;
    this.#signingKeys = signingKeys;
    this.#devices = new DeviceLookup(services);
    this.#usedTokenWriter = new UsedTokenWriter(services.store);
  }

  sizes(): CollectionSizes {
    return { ...this.#usedTokens.sizes(), ...this.#usedTokenWriter.sizes(), ...this.#devices.sizes() };
  }

  /** Null if the sign-in is refused, without a reason. A token can be used for one sign-in only. */
  async authenticate({ clientId, username, password }: ConnectCredentials): Promise<AuthenticatedDevice | null> {
    const token = parseSessionToken(clientId);
    if (token === null || username === undefined || password === undefined) return null;
    if (!isFreshSession(token, [this.#clock.now(), referenceOf(this.#clock)])) return null;
    const signature = password.toString('latin1');
    const { actors } = this.#services;
    const readTenant = () => actors.read<TenantContext>({ kind: 'tenant', id: username });
    const [{ device, keys }, tenant] = await Promise.all([
      this.#devices.find(token.deviceId),
      isCanonicalUuid(username) ? readTenant() : null,
    ]);
    const verified = this.#verifySignature(token, username, signature, keys);
    if (verified === null || !isDeviceActive(device, username) || !isTenantActive(tenant)) return null;
    if (!this.#usedTokens.markUsed(token, this.#clock.now()) || !(await this.#usedTokenWriter.markUsed(token)))
      return null;
    // The device or tenant may have been revoked, reinstated or suspended during the store calls: read both again, also
    // if they are no longer in memory.
    const [deviceNow, tenantNow] = await Promise.all([
      actors.read<DeviceContext>({ kind: 'device', id: token.deviceId }),
      readTenant(),
    ]);
    if (
      !isSessionKeyValid(deviceNow, { tenantId: username, keyVersion: verified.keyVersion }) ||
      !isTenantActive(tenantNow)
    )
      return null;
    return { deviceId: token.deviceId, tenantId: username, clientId, ...verified };
  }

  /**
   * A device that signs in with a certificate, with the keys that sign the messages to it; `revokedAt` is the time of its
   * last revocation, 0 without one. The keys are null if its secret cannot be read.
   */
  async findWithCloudKeys(
    deviceId: string,
  ): Promise<{ device: CommittedDevice | null; cloudKeys: SessionCloudKeys | null; revokedAt: EpochMs }> {
    const [{ device, keys }, history] = await Promise.all([
      this.#devices.find(deviceId),
      this.#services.store.devices.keyHistory(deviceId),
    ]);
    const revokedAt = lastRevocationOf(history);
    const current = keys.find(({ keyVersion }) => keyVersion === device?.snapshot.context.fixed.keyVersion);
    if (current === undefined) return { device, cloudKeys: null, revokedAt };
    if (current.signingAlg === 'ed25519') return { device, cloudKeys: this.#serviceKeys, revokedAt };
    const key = this.#keyOf(deviceId, current);
    return { device, cloudKeys: key && this.#cloudKeysOf(key), revokedAt };
  }

  #verifySignature(
    token: SessionToken,
    tenantId: string,
    signature: string,
    keys: readonly LiveKey[],
  ): Pick<AuthenticatedDevice, 'keyVersion' | 'key' | 'cloudKeys' | 'expiresAt'> | null {
    const now = this.#clock.now();
    const candidates = keys.filter(({ graceUntil }) => graceUntil === null || graceUntil > now);
    candidates.sort((a, b) => b.keyVersion - a.keyVersion);
    let isCompared = false;
    for (const stored of candidates) {
      const key = this.#keyOf(token.deviceId, stored);
      if (key === null) continue;
      isCompared = true;
      if (!verifySession(token, tenantId, signature, key)) continue;
      const end = now + SESSION_LIFE_MS;
      return {
        keyVersion: stored.keyVersion,
        key,
        cloudKeys: this.#cloudKeysOf(key),
        expiresAt: stored.graceUntil === null ? end : Math.min(end, stored.graceUntil),
      };
    }
    // A device without a key, such as one that signs in with certificates, takes as long as an unknown one.
    if (!isCompared) verifySession(token, tenantId, signature, DUMMY_KEY);
    return null;
  }

  get #serviceKeys(): SessionCloudKeys {
    const { current, previous } = this.#signingKeys;
    return { first: previous ?? current, afterHello: current };
  }

  #keyOf(deviceId: string, { signingAlg, sealedSecret, publicKey, keyVersion }: LiveKey): VerifyingKey | null {
    switch (signingAlg) {
      case 'ed25519':
        return publicKey === null ? null : verifyingKey(signingAlg, publicKey);
      case 'hmac-sha256':
        if (sealedSecret === null) return null;
        return verifyingKey(signingAlg, this.#services.open(sealedSecret, secretBinding(deviceId, keyVersion)));
    }
  }

  /**
   * An HMAC key is shared. An Ed25519 device that was not connected since the key of the service changed knows the
   * previous one only. A device that knows the current one accepts the previous one too if every process that announces
   * the current one also announces the previous one. So the private half of the previous key is removed from all
   * processes before its public half is removed from any (docs/operations.md, "Change the keys").
   */
  #cloudKeysOf(key: VerifyingKey): SessionCloudKeys {
    switch (key.alg) {
      case 'ed25519':
        return this.#serviceKeys;
      case 'hmac-sha256':
        return { first: key, afterHello: key };
    }
  }
}
