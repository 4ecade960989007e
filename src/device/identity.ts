import { randomUUID } from 'node:crypto';
import type { EpochMs, JsonObject, Uuid } from '../domain/values.ts';
import { checkCloudMessage, composeMessage, type MessageCheck } from '../protocol/envelope.ts';
import type { CloudPayload } from '../protocol/payloads.ts';
import { type SessionCredentials, sessionCredentials } from '../protocol/session-token.ts';
import {
  isPublicKey,
  newNonce,
  type SigningAlg,
  type SigningKey,
  signingKey,
  type VerifyingKey,
  verifyingKey,
} from '../protocol/signature.ts';
import type { DeviceChannel } from '../protocol/topics.ts';

/** What an identity signs, beside who and when. */
export interface UnsignedMessage {
  clientId: string;
  type: DeviceChannel;
  payload: JsonObject;
  sequence: number;
  /** Default: a new one. */
  messageId?: string;
}

/** Who a device is: its ids, the key it signs with, and the keys it checks the service with. */
export class Identity {
  readonly tenantId: Uuid;
  readonly deviceId: Uuid;
  #key: SigningKey;
  #keyVersion: number;
  #cloudPublicKeys: readonly string[];
  #cloudKeys: readonly VerifyingKey[] = [];

  /** Throws when the secret or a public key is no 32 bytes in base64url. */
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
    this.#readCloudKeys();
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
    this.#readCloudKeys();
  }

  /** The keys the service announced, in a message that one of the known ones signed. An empty list changes nothing. */
  learnCloudKeys(announced: readonly string[]): void {
    const usable = announced.filter(isPublicKey);
    if (usable.length === 0) return;
    this.#cloudPublicKeys = usable;
    this.#readCloudKeys();
  }

  /** What to sign in with; another one each time. */
  credentials(now: EpochMs): SessionCredentials {
    const { tenantId, deviceId } = this;
    return sessionCredentials({ tenantId, deviceId, key: this.#key }, now, newNonce());
  }

  /** The text of a signed message. */
  compose(utterance: UnsignedMessage, now: EpochMs): string {
    return composeMessage({
      messageId: randomUUID(),
      ...utterance,
      tenantId: this.tenantId,
      deviceId: this.deviceId,
      requestId: '',
      timestamp: now,
      nonce: newNonce(),
      keyVersion: this.#keyVersion,
      key: this.#key,
    });
  }

  /** Checks what came on `cmd` in the session `clientId`. */
  check(bytes: Uint8Array, clientId: string, now: EpochMs): MessageCheck<CloudPayload> {
    const { tenantId, deviceId } = this;
    return checkCloudMessage(bytes, { tenantId, deviceId, clientId, keys: this.#cloudKeys }, now);
  }

  /** HMAC: the secret that both share. Ed25519: the service's own keys. */
  #readCloudKeys(): void {
    const shared = this.#key.alg === 'hmac-sha256';
    this.#cloudKeys = shared ? [this.#key] : this.#cloudPublicKeys.map((text) => verifyingKey('ed25519', text));
  }
}
