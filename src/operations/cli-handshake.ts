import { z } from 'zod';
import { done, refuse } from '../domain/refusals.ts';
import { operation } from './operation.ts';
import { TOKEN_LIFE_S } from './tokens.ts';

export const approveHandshake = operation({
  name: 'approveCliHandshake',
  summary: 'Let a command line act as you, by the 6 characters that it shows',
  input: z.strictObject({
    code: z.string().max(128).meta({ description: 'Of the page that the command line opened' }),
    user_code: z.string().max(16).meta({ description: 'The 6 characters that the command line shows' }),
  }),
  output: z.object({ status: z.literal('approved') }),
  role: 'none',
  scope: null,
  person: true,
  changes: true,
  about: ({ caller }) => `user:${caller.principal.id}`,
  inMaintenance: true,
  refuses: ['FORBIDDEN', 'NOT_FOUND', 'GONE'],
  example: {
    input: { code: 'uVn7yQ0Zr7mJ5n5vRkV4b7hQbF2x8m0iZ1o3pWc9sTk', user_code: 'K7QX2M' },
    output: { status: 'approved' },
  },
  async run({ handshakes }, { input, caller }) {
    const { user, scopes } = caller;
    if (user === null) throw new Error('nobody approved a sign-in');
    const approved = await handshakes.approve(input.code, input.user_code, { userId: user.id, scopes });
    return approved.ok ? done({ body: { status: 'approved' as const } }) : approved;
  },
});

export const pollHandshake = operation({
  name: 'pollCliHandshake',
  summary: 'Whether a person has approved the sign-in of this command line',
  input: z.strictObject({
    code: z.string().max(128),
    verifier: z.string().max(256).default('').meta({ description: 'What the challenge is the SHA-256 of' }),
  }),
  output: z.object({
    status: z.enum(['pending', 'approved']),
    access_token: z.string().optional().meta({ description: 'Once, when approved' }),
    expires_in: z.int().optional().meta({ description: 'Seconds' }),
  }),
  role: null,
  scope: null,
  changes: false,
  refuses: ['FORBIDDEN', 'NOT_FOUND', 'GONE', 'STORE_UNAVAILABLE'],
  example: { output: { status: 'approved', access_token: 'eyJhbGciOiJFZERTQSJ9.….…', expires_in: 3600 } },
  async run({ handshakes, users, newId, signToken }, { input }) {
    const polled = await handshakes.poll(input.code, input.verifier, async ({ userId, scopes }) => {
      const user = await users.get(userId);
      if (user === null) return refuse('GONE', 'Who approved this sign-in is no longer a user.');
      const scope = scopes === null ? {} : { scope: scopes.join(' ') };
      return done(await signToken({ sub: user.sub, userId, jti: newId(), ttlS: TOKEN_LIFE_S, ...scope }));
    });
    if (!polled.ok) return polled;
    if (polled.value === null) return done({ body: { status: 'pending' as const } });
    return done({ body: { status: 'approved' as const, access_token: polled.value, expires_in: TOKEN_LIFE_S } });
  },
});
