import { randomUUID } from 'node:crypto';
import type { SigningAlg } from '../domain/device-key.ts';
import type { EpochMs, JsonObject, Uuid } from '../domain/values.ts';
import { type CheckedMessage, checkCloudMessage, composeMessage, type MessageRefusal } from '../protocol/envelope.ts';
import type { CloudPayload } from '../protocol/payloads.ts';
import { type SessionCredentials, sessionCredentials } from '../protocol/session-token.ts';
import {
  isPublicKey,
  newNonce,
  type SigningKey,
  signingKey,
  type VerifyingKey,
  verifyingKey,
} from '../protocol/signature.ts';
import type { DeviceChannel } from '../protocol/topics.ts';

/** A message before `DeviceIdentity.compose` adds identity, time, nonce and signature. */
export interface UnsignedMessage {
  clientId: string;
  type: DeviceChannel;
  payload: JsonObject;
  sequence: number;
  /** Default: a new UUID. */
  messageId?: string;
}

/** A device's identity: its ids, its signing key, and the public keys it verifies the service with. */
export class DeviceIdentity {
  readonly tenantId: Uuid;
  readonly deviceId: Uuid;
  #key: SigningKey;
  #keyVersion: number;
  #cloudPublicKeys: readonly string[];
  #cloudKeys: readonly VerifyingKey[] = [];

  /** Throws if the secret or a public key is not 32 bytes in base64url. */
  constructor(
    ids: { tenantId: Uuid; deviceId: Uuid },
    secret: string,
    key: { signingAlg: SigningAlg; keyVersion: number; cloudPublicKeys: readonly string[] },
  ) {
    this.tenantId = ids.tenantId;
    this.deviceId = ids.deviceId;
    this.#key = signingKey(key.signingAlg, secret);
    this.#keyVersion = key.keyVersion;
    this.#cloudPublicKeys = key.cloudPublicKeys;
    this.#updateCloudKeys();
  }

  get alg(): SigningAlg {
    return this.#key.alg;
  }

  get cloudPublicKeys(): readonly string[] {
    return this.#cloudPublicKeys;
  }

  rekey(secret: string, keyVersion: number, signingAlg: SigningAlg): void {
    this.#key = signingKey(signingAlg, secret);
    this.#keyVersion = keyVersion;
    this.#updateCloudKeys();
  }

  /**
   * Replaces the service's public keys with those it announced in a verified message. Ignores a list without a valid
   * key.
   */
  setCloudKeys(announced: readonly string[]): void {
    const usable = announced.filter(isPublicKey);
    if (usable.length === 0) return;
    this.#cloudPublicKeys = usable;
    this.#updateCloudKeys();
  }

  /** Credentials for one sign-in. Each call returns new ones: a session token is accepted once. */
  credentials(now: EpochMs): SessionCredentials {
    const { tenantId, deviceId } = this;
    return sessionCredentials({ tenantId, deviceId, key: this.#key }, now, newNonce());
  }

  /** Signs a message and returns its JSON text. */
  compose(message: UnsignedMessage, now: EpochMs): string {
    return composeMessage({
      messageId: randomUUID(),
      ...message,
      tenantId: this.tenantId,
      deviceId: this.deviceId,
      requestId: '',
      timestamp: now,
      nonce: newNonce(),
      keyVersion: this.#keyVersion,
      key: this.#key,
    });
  }

  /** Verifies a message received on `cmd` in the session `clientId`. */
  check(bytes: Uint8Array, clientId: string, now: EpochMs): CheckedMessage<CloudPayload> | MessageRefusal {
    const { tenantId, deviceId } = this;
    return checkCloudMessage(bytes, { tenantId, deviceId, clientId, keys: this.#cloudKeys }, now);
  }

  /** HMAC: the shared secret verifies both directions. Ed25519: the service has its own keys. */
  #updateCloudKeys(): void {
    this.#cloudKeys = this.#keysOfCloud(this.#key);
  }

  #keysOfCloud(key: SigningKey): VerifyingKey[] {
    switch (key.alg) {
      case 'hmac-sha256':
        return [key];
      case 'ed25519':
        return this.#cloudPublicKeys.map((text) => verifyingKey('ed25519', text));
    }
  }
}
