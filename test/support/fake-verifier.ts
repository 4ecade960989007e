import type { Proof, Verifier } from '../../src/edges/shared/authenticator.ts';

const PREFIX = 'stand-in.';

/** Accepts credentials that state their own proof, so that a test can choose the result of the verification. */
export const fakeVerifier: Verifier = {
  recognises: (credential) => credential.startsWith(PREFIX),
  verify: async (credential) =>
    JSON.parse(Buffer.from(credential.slice(PREFIX.length), 'base64url').toString()) as Proof,
};

/** Defaults are those of an API key without scopes and without an end. */
export function fakeCredential(userId: string, proof: Partial<Proof> = {}): string {
  const complete: Proof = {
    ...{ subject: { userId }, scopes: null, platformAdmin: false, person: false, token: null },
    until: Number.MAX_SAFE_INTEGER,
    ...proof,
  };
  return PREFIX + Buffer.from(JSON.stringify(complete)).toString('base64url');
}
