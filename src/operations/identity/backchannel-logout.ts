import { z } from 'zod';
import { referenceOf } from '../../domain/clock.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { UploadBroken } from '../../services/artifacts.ts';
import { MAX_TOKEN_LIFE_S } from '../../services/tokens.ts';
import { type Call, operation } from '../operation.ts';

const MAX_BODY_BYTES = 32_768;

export const endProviderSession = operation({
  name: 'endProviderSession',
  summary:
    'Sign a user out who has signed out at the identity provider (OpenID Connect Back-Channel Logout 1.0): the provider sends logout_token in a form',
  input: z.strictObject({}),
  output: z.object({ status: z.literal('logged_out') }),
  role: null,
  scope: null,
  changes: true,
  inMaintenance: true,
  upload: { type: 'application/x-www-form-urlencoded', maxBytes: MAX_BODY_BYTES },
  refuses: ['NOT_FOUND', 'VALIDATION_FAILED', 'PAYLOAD_TOO_LARGE', 'STORE_UNAVAILABLE', 'OVERLOADED'],
  needs: ['clock', 'revocations', 'settings', 'users', 'userSessions', 'verifyLogoutToken'],
  async run(services, call) {
    const { clock, revocations, settings, users, userSessions, verifyLogoutToken } = services;
    const verify = verifyLogoutToken();
    if (verify === null) return refuse('NOT_FOUND', 'No identity provider with a client is configured.');
    const token = await logoutTokenIn(call);
    if (!token.ok) return token;
    const logout = await verify(token.value);
    if (logout === null || (await revocations.has(logout.id))) {
      return refuse('VALIDATION_FAILED', 'logout_token is not a valid logout token, or was used already.');
    }
    const { session, subject } = logout;
    const user = subject === null ? null : await users.findBySubject(subject);
    // A session of the provider limits the logout to it: only without `sid` all sessions of the user are meant (§2.4).
    if (session !== null) {
      // Longest assumed life of what belongs to a session of the provider: its access tokens, and what was derived.
      const lifeS = Math.max(settings.sessionMaxAgeS, MAX_TOKEN_LIFE_S);
      await userSessions.end({ id: session, expiresAt: referenceOf(clock) + lifeS * 1000 });
    } else if (user !== null) await userSessions.endAll(user.id);
    // Afterwards, so that the provider can repeat a request that failed.
    await revocations.add(logout.id, logout.expiresAt);
    const about = user === null ? 'service' : { subject: `user:${user.id}`, tenantId: user.tenantId, by: user.id };
    return done({ body: { status: 'logged_out' as const }, about });
  },
});

async function logoutTokenIn({ upload }: Pick<Call<unknown>, 'upload'>): Promise<Outcome<string>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of upload ?? []) {
      size += chunk.length;
      if (size > MAX_BODY_BYTES) return refuse('PAYLOAD_TOO_LARGE', `The body has more than ${MAX_BODY_BYTES} bytes.`);
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof UploadBroken) return refuse('VALIDATION_FAILED', 'The body is incomplete.');
    throw error;
  }
  const [token, ...others] = new URLSearchParams(Buffer.concat(chunks).toString()).getAll('logout_token');
  return token === undefined || others.length > 0
    ? refuse('VALIDATION_FAILED', 'Send logout_token once, in a form.')
    : done(token);
}
