import type { Proof, Verifier } from '../../src/edges/shared/identity.ts';

const PREFIX = 'stand-in.';

/** Credentials of any kind, said rather than earned: a test writes what a verifier would have found out. */
export const fakeVerifier: Verifier = {
  recognises: (credential) => credential.startsWith(PREFIX),
  verify: async (credential) =>
    JSON.parse(Buffer.from(credential.slice(PREFIX.length), 'base64url').toString()) as Proof,
};

/** What is not said is as with an API key that has no scopes and no end. */
export function fakeCredential(userId: string, proof: Partial<Proof> = {}): string {
  const whole: Proof = {
    ...{ subject: { userId }, scopes: null, platformAdmin: false, person: false, token: null },
    until: Number.MAX_SAFE_INTEGER,
    ...proof,
  };
  return PREFIX + Buffer.from(JSON.stringify(whole)).toString('base64url');
}
