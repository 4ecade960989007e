import type { Config } from '../config.ts';
import type { CloudSigningKeys } from '../edges/mqtt/device-authenticator.ts';
import { type SigningKey, signingKey } from '../protocol/signature.ts';

/**
 * The public keys that are announced to devices, the current one first. Devices accept every key of the newest list that
 * they have verified, and no other. A list has the next key because processes that have changed to it sign with it, and
 * the previous key because processes that still have its private half sign with it.
 */
export const announcedKeys = ({
  deviceSigning,
  deviceSigningNext,
  deviceSigningPrevious,
}: Config['keys']): string[] => [
  ...new Set(
    [deviceSigning, deviceSigningNext, deviceSigningPrevious].flatMap((key) => (key === null ? [] : [key.publicKey])),
  ),
];

/** The keys that sign messages to Ed25519 devices. */
export const deviceSigningKeys = ({ deviceSigning, deviceSigningPrevious }: Config['keys']): CloudSigningKeys => ({
  current: ed25519KeyOf(deviceSigning.privateKey),
  previous: deviceSigningPrevious?.privateKey ? ed25519KeyOf(deviceSigningPrevious.privateKey) : null,
});

const ed25519KeyOf = (privateKey: Config['keys']['deviceSigning']['privateKey']): SigningKey =>
  signingKey('ed25519', privateKey.export({ format: 'jwk' }).d as string);
