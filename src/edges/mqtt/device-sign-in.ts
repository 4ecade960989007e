import { type Clock, referenceOf } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { EpochMs } from '../../domain/values.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import type { Services } from '../../operations/operation.ts';
import { SESSION_LIFE_MS } from '../../protocol/constants.ts';
import { isFreshSession, parseSessionToken, type SessionToken, verifySession } from '../../protocol/session-token.ts';
import { newDeviceSecret, type SigningKey, type VerifyingKey, verifyingKey } from '../../protocol/signature.ts';
import { isDeviceActive, isSessionKeyValid, isTenantActive } from './device-access.ts';
import { DeviceLookup, type LiveKey } from './device-lookup.ts';
import { UsedTokenWriter } from './used-token-writer.ts';
import { UsedTokens } from './used-tokens.ts';

/** What a CONNECT says, as it came. */
export interface ConnectCredentials {
  clientId: string;
  username: string | undefined;
  password: Buffer | undefined;
}

/** Who a device proved to be, with the key that proved it. */
export interface DeviceIdentity {
  deviceId: string;
  tenantId: string;
  clientId: string;
  keyVersion: number;
  key: VerifyingKey;
  cloudKey: SigningKey;
  expiresAt: EpochMs;
}

/** The sealed secret of a key opens only under the name of its device and version. */
export const keyBinding = (deviceId: string, keyVersion: number): string => `device:${deviceId}:${keyVersion}`;

// Someone who guesses device ids is to learn nothing from the time that the answer takes.
const DUMMY_KEY = verifyingKey('hmac-sha256', newDeviceSecret());

/** Contract §4, "Session (layer 1)" and "Keys and sessions". */
export class DeviceSignIn {
  readonly #services: Pick<Services, 'store' | 'actors' | 'open'>;
  readonly #clock: Clock;
  readonly #signingKey: SigningKey;
  readonly #directory: DeviceLookup;
  readonly #used = new UsedTokens();
  readonly #ledger: UsedTokenWriter;

  /** `signingKey` is the service's own, for devices with Ed25519 keys. */
  constructor(services: Pick<Services, 'store' | 'actors' | 'open' | 'clock'>, signingKey: SigningKey) {
    this.#services = services;
    this.#clock = services.clock;
    this.#signingKey = signingKey;
    this.#directory = new DeviceLookup(services);
    this.#ledger = new UsedTokenWriter(services.store);
  }

  sizes(): CollectionSizes {
    return { ...this.#used.sizes(), ...this.#ledger.sizes(), ...this.#directory.sizes() };
  }

  /** Null for whoever is not let in; no reason is given. A token that let a device in is used up. */
  async authenticate({ clientId, username, password }: ConnectCredentials): Promise<DeviceIdentity | null> {
    const token = parseSessionToken(clientId);
    if (token === null || username === undefined || password === undefined) return null;
    if (!isFreshSession(token, [this.#clock.now(), referenceOf(this.#clock)])) return null;
    const signature = password.toString('latin1');
    const { actors } = this.#services;
    const readTenant = () => actors.read<TenantContext>({ kind: 'tenant', id: username });
    const [{ device, keys }, tenant] = await Promise.all([
      this.#directory.find(token.deviceId),
      isUuid(username) ? readTenant() : null,
    ]);
    const proven = this.#prove(token, username, signature, keys);
    if (proven === null || !isDeviceActive(device, username) || !isTenantActive(tenant)) return null;
    if (!this.#used.markUsed(token, this.#clock.now()) || !(await this.#ledger.markUsed(token))) return null;
    // It may have been revoked, reinstated or suspended while the store was asked, and have left memory since: both are read again.
    const [deviceNow, tenantNow] = await Promise.all([
      actors.read<DeviceContext>({ kind: 'device', id: token.deviceId }),
      readTenant(),
    ]);
    if (
      !isSessionKeyValid(deviceNow, { tenantId: username, keyVersion: proven.keyVersion }) ||
      !isTenantActive(tenantNow)
    )
      return null;
    return { deviceId: token.deviceId, tenantId: username, clientId, ...proven };
  }

  #prove(
    token: SessionToken,
    tenantId: string,
    signature: string,
    keys: readonly LiveKey[],
  ): Pick<DeviceIdentity, 'keyVersion' | 'key' | 'cloudKey' | 'expiresAt'> | null {
    const now = this.#clock.now();
    const tried = keys.filter(({ graceUntil }) => graceUntil === null || graceUntil > now);
    tried.sort((a, b) => b.keyVersion - a.keyVersion);
    for (const stored of tried) {
      const key = this.#keyOf(token.deviceId, stored);
      if (key === null || !verifySession(token, tenantId, signature, key)) continue;
      const end = now + SESSION_LIFE_MS;
      return {
        keyVersion: stored.keyVersion,
        key,
        cloudKey: key.alg === 'ed25519' ? this.#signingKey : key,
        expiresAt: stored.graceUntil === null ? end : Math.min(end, stored.graceUntil),
      };
    }
    if (tried.length === 0) verifySession(token, tenantId, signature, DUMMY_KEY);
    return null;
  }

  #keyOf(deviceId: string, { signingAlg, sealedSecret, publicKey, keyVersion }: LiveKey): VerifyingKey | null {
    if (signingAlg === 'ed25519') return publicKey === null ? null : verifyingKey('ed25519', publicKey);
    if (sealedSecret === null) return null;
    return verifyingKey('hmac-sha256', this.#services.open(sealedSecret, keyBinding(deviceId, keyVersion)));
  }
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export const isUuid = (text: string): boolean => UUID.test(text);
