import type { SealedPlace } from './sealing.ts';
import type { Milliseconds, Uuid } from './values.ts';

/** Algorithms of device keys (contract §4). */
export const signingAlgs = ['hmac-sha256', 'ed25519'] as const;
export type SigningAlg = (typeof signingAlgs)[number];

/** How long the previous key verifies after a rotation (contract §4). */
export const KEY_GRACE_MS: Milliseconds = 24 * 60 * 60 * 1000;

/** The current version of a device's key and, during its grace period, the one before. */
interface KeyVersions {
  keyVersion: number;
  grace: { keyVersion: number } | null;
}

/**
 * Whether this key version was replaced and its grace period is over. Versions only increase. Does not check
 * revocation, which also ends the current key.
 */
export const hasKeyEnded = ({ keyVersion, grace }: KeyVersions, version: number): boolean =>
  version < keyVersion && version !== grace?.keyVersion;

/** What a device secret is sealed for: it opens only for this device and key version. */
export const secretBinding = (deviceId: Uuid, keyVersion: number): SealedPlace => ({
  purpose: 'device secrets',
  aad: `device:${deviceId}:${keyVersion}`,
});
