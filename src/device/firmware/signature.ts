import type { JsonObject } from '../../domain/values.ts';
import { findFirmwareSigner } from '../../protocol/firmware-signature.ts';
import { isPublicKey } from '../../protocol/signature.ts';

// Verifies that firmware was signed by a key that the service does not have.

/** What a device requires of the signature of its firmware. */
export interface FirmwareSignatureCheck {
  /** Ed25519 public keys, 32 raw bytes, base64url, that are part of the device's own firmware. */
  publicKeys: readonly string[];
  /** The device's own type. Not one from a message, or else the firmware of another type would be accepted. */
  deviceType: string;
  /** The parameters of the `update_firmware` command. */
  params: JsonObject;
}

/** The firmware has no signature, or none by a key of this device for this type, version, checksum and size. */
export class SignatureRefused extends Error {
  override name = 'SignatureRefused';
}

/**
 * Verifies the signature over the file with this checksum, before it is downloaded. Returns the signed size of the file.
 * Throws `SignatureRefused`; a TypeError if a public key is malformed.
 */
export function verifyFirmwareSignature(
  { publicKeys, deviceType, params }: FirmwareSignatureCheck,
  checksum: string,
): number {
  const malformed = publicKeys.find((key) => !isPublicKey(key));
  if (malformed !== undefined) throw new TypeError('a firmware key must be an Ed25519 public key in base64url');
  const { version, size, signature } = params;
  if (typeof version !== 'string' || typeof size !== 'number' || typeof signature !== 'string') {
    throw new SignatureRefused('the firmware is not signed');
  }
  const keys = publicKeys.map((publicKey) => ({ publicKey }));
  if (!isSignedBy(keys, { deviceType, version, checksum, size }, signature)) {
    throw new SignatureRefused('no firmware key of this device verifies the signature');
  }
  return size;
}

/** False also for facts that cannot be signed, such as a version of two lines. */
function isSignedBy(...[keys, firmware, signature]: Parameters<typeof findFirmwareSigner>): boolean {
  try {
    return findFirmwareSigner(keys, firmware, signature) !== null;
  } catch {
    return false;
  }
}
