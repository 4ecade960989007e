import { generateKeyPairSync } from 'node:crypto';
import { exportJWK } from 'jose';
import { type SigningKey, signingKey } from '../../../src/protocol/signature.ts';
import { importTokenKey, type TokenKey } from '../../../src/services/tokens.ts';

/** Keys of all simulated processes; generated once, since runs neither sign tokens nor depend on their bytes. */
export interface Keys {
  master: Buffer;
  deviceSigning: SigningKey;
  token: TokenKey;
}

export async function makeKeys(): Promise<Keys> {
  const { privateKey } = generateKeyPairSync('ed25519');
  const seed = Buffer.alloc(32, 7).toString('base64url');
  return {
    master: Buffer.alloc(32, 1),
    deviceSigning: signingKey('ed25519', seed),
    token: await importTokenKey(await exportJWK(privateKey)),
  };
}
