import type { EpochMs, Uuid } from './values.ts';

// Signatures of firmware releases by keys that the service does not hold. protocol/firmware-signature.ts has the signed bytes.

/** Keys of a tenant: the current one, and the next one while devices change. */
export const MAX_FIRMWARE_KEYS = 10;

/** A public key whose signatures a tenant accepts on firmware. */
export interface FirmwareKey {
  /** The JWK thumbprint of the public key. */
  keyId: string;
  /** Ed25519, 32 raw bytes, base64url. */
  publicKey: string;
  name: string;
  /** The user that registered it. */
  addedBy: Uuid;
  createdAt: EpochMs;
}

export interface FirmwareSigning {
  /** Devices are offered and sent only releases that one of `keys` has signed. */
  required: boolean;
  /** Oldest first. */
  keys: readonly FirmwareKey[];
}

/** The part of a release that `isSignedAsRequired` needs. */
interface SignedRelease {
  /** The key that verified its signature when it was released. */
  signatureKeyId: string | null;
}

/** A signature counts only as long as its key is registered. */
export const isSignedByKey = ({ keys }: FirmwareSigning, { signatureKeyId }: SignedRelease): boolean =>
  keys.some(({ keyId }) => keyId === signatureKeyId);

export const isSignedAsRequired = (signing: FirmwareSigning, release: SignedRelease): boolean =>
  !signing.required || isSignedByKey(signing, release);
