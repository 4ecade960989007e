import { z } from 'zod';
import { referenceOf } from '../../domain/clock.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { EpochMs } from '../../domain/values.ts';
import { chainOf, MAX_ANCESTORS, someInChain, TOKEN_LIFE_S, type TokenRef } from '../../services/tokens.ts';
import { isSignedOut } from '../../services/user-sessions.ts';
import { operation, type Services } from '../operation.ts';

export const approveCliHandshake = operation({
  name: 'approveCliHandshake',
  summary: 'Approve the sign-in of a command line, with the 6 characters that it shows',
  input: z.strictObject({
    code: z.string().max(128).meta({ description: 'The code in the URL of the page that the command line opened' }),
    user_code: z.string().max(16).meta({ description: 'The 6 characters shown on the command line' }),
  }),
  output: z.object({ status: z.literal('approved') }),
  role: 'none',
  scope: null,
  personOnly: true,
  changes: true,
  auditSubject: ({ caller }) => `user:${caller.principal.id}`,
  inMaintenance: true,
  refuses: ['FORBIDDEN', 'NOT_FOUND', 'GONE'],
  example: {
    input: { code: 'uVn7yQ0Zr7mJ5n5vRkV4b7hQbF2x8m0iZ1o3pWc9sTk', user_code: 'K7QX2M' },
    output: { status: 'approved' },
  },
  needs: ['clock', 'handshakes', 'settings'],
  async run(services, { input, caller }) {
    const { user, scopes, token } = caller;
    if (user === null || token === null) throw new Error('approving a sign-in requires a person’s token');
    const signedIn = checkSignInTime(services, token);
    if (!signedIn.ok) return signedIn;
    const grant = {
      ...{ userId: user.id, scopes, signedInAt: signedIn.value },
      ...{ parent: token.id, ancestors: chainOf(token) },
    };
    const approved = await services.handshakes.approve(input.code, input.user_code, grant);
    return approved.ok ? done({ body: { status: 'approved' as const } }) : approved;
  },
});

/** When the bearer of `token` signed in, ms. Refuses tokens from which no further token may be derived. */
function checkSignInTime(services: Pick<Services, 'clock' | 'settings'>, token: TokenRef): Outcome<EpochMs> {
  const { signedInAt, parent } = token;
  if (parent !== undefined) {
    const detail = 'A token from a command-line sign-in cannot approve another one: sign in with the browser.';
    return refuse('FORBIDDEN', detail);
  }
  if (chainOf(token).length > MAX_ANCESTORS) return chainTooLong();
  if (signedInAt === undefined || remainingLifeS(services, signedInAt) <= 0) {
    return refuse('FORBIDDEN', 'Your sign-in is too old to approve a command line: sign in again.');
  }
  return done(signedInAt);
}

export const chainTooLong = () =>
  refuse('FORBIDDEN', 'Too many sign-ins were derived from one another: sign in again.');

/** Remaining lifetime of tokens and sessions that are derived from a sign-in, in whole seconds. */
export const remainingLifeS = (
  { clock, settings }: Pick<Services, 'clock' | 'settings'>,
  signedInAt: EpochMs,
): number => Math.floor((signedInAt - referenceOf(clock)) / 1000) + settings.sessionMaxAgeS;

const approvalEnded = () => refuse('GONE', 'The sign-in that approved this request has ended. Start it again.');

export const pollCliHandshake = operation({
  name: 'pollCliHandshake',
  summary: 'Poll whether a person has approved the sign-in of this command line',
  input: z.strictObject({
    code: z.string().max(128),
    verifier: z.string().max(256).default('').meta({ description: 'The text whose SHA-256 is the challenge' }),
  }),
  output: z.object({
    status: z.enum(['pending', 'approved']),
    access_token: z.string().optional().meta({ description: 'Returned once, when approved' }),
    expires_in: z.int().optional().meta({ description: 'Seconds' }),
  }),
  role: null,
  scope: null,
  changes: false,
  refuses: ['FORBIDDEN', 'NOT_FOUND', 'GONE', 'STORE_UNAVAILABLE'],
  example: { output: { status: 'approved', access_token: 'eyJhbGciOiJFZERTQSJ9.….…', expires_in: 3600 } },
  needs: ['clock', 'handshakes', 'newId', 'revocations', 'settings', 'signToken', 'users', 'userSessions'],
  async run(services, { input, caller }) {
    const { handshakes, users, userSessions, newId, revocations, signToken } = services;
    const polled = await handshakes.poll(input.code, input.verifier, async (grant) => {
      const { userId, scopes, parent, ancestors = [parent], signedInAt } = grant;
      if (await someInChain({ id: parent, ancestors }, revocations.has)) return approvalEnded();
      const user = await users.get(userId);
      if (user === null) return refuse('GONE', 'The user who approved this sign-in no longer exists.');
      const jti = newId();
      const issued = { id: jti, expiresAt: 0, signedInAt, parent, ancestors };
      if (isSignedOut(user, issued)) return approvalEnded();
      const ttlS = Math.min(TOKEN_LIFE_S, remainingLifeS(services, signedInAt));
      if (ttlS <= 0) return refuse('GONE', 'The sign-in that approved this request has expired. Start it again.');
      const scope = scopes === null ? {} : { scope: scopes.join(' ') };
      const token = { sub: user.sub, userId, jti, ttlS, parent, ancestors, signedInAt, ...scope };
      await userSessions.open(userId, { ...issued, expiresAt: referenceOf(services.clock) + ttlS * 1000 }, caller);
      return done({ access_token: await signToken(token), expires_in: ttlS });
    });
    if (!polled.ok) return polled;
    if (polled.value === null) return done({ body: { status: 'pending' as const } });
    return done({ body: { status: 'approved' as const, ...polled.value } });
  },
});
