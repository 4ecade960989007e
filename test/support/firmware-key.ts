import { createHash, createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { firmwareKeyId, rawPublicKey, signFirmware } from '../../src/protocol/firmware-signature.ts';

/** An Ed25519 key that signs firmware. */
export interface FirmwareTestKey {
  publicKey: string;
  keyId: string;
  /** PKCS#8 in PEM. */
  pem: string;
  /** Signs the firmware, by default version 1.5.0 for lights. */
  sign(content: Uint8Array, more?: { deviceType?: string; version?: string; size?: number }): string;
}

/** A new key, or the one in `pem`. On a command line, an argument that begins with a hyphen would be an option. */
export function firmwareTestKey(pem?: string): FirmwareTestKey {
  const key: KeyObject = pem === undefined ? generateKeyPairSync('ed25519').privateKey : createPrivateKey(pem);
  const publicKey = rawPublicKey(key);
  const keyId = firmwareKeyId(publicKey);
  if (pem === undefined && (publicKey.startsWith('-') || keyId.startsWith('-'))) return firmwareTestKey();
  return {
    publicKey,
    keyId,
    pem: key.export({ type: 'pkcs8', format: 'pem' }) as string,
    sign: (content, { deviceType = 'smart_light', version = '1.5.0', size = content.length } = {}) =>
      signFirmware(key, { deviceType, version, checksum: sha256(content), size }),
  };
}

export const sha256 = (content: Uint8Array): string => createHash('sha256').update(content).digest('hex');
