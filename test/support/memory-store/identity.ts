import type { EpochMs } from '../../../src/domain/values.ts';
import type { IdentityStore, User } from '../../../src/store/contract.ts';
import { bigint, boolean, type Columns, indexedText, nullable, refuse, rowOf, text, uuid } from './columns.ts';
import type { Session } from './session.ts';
import type { Table } from './table.ts';

const columns: Columns<User> = {
  ...{ id: uuid, iss: indexedText, sub: indexedText, email: nullable(text), emailVerified: boolean },
  ...{ tenantId: nullable(uuid), role: text, createdAt: bigint, notBefore: nullable(bigint) },
};

/** Stores the expiry; an earlier one never replaces a later one. */
function storeUntil(table: Table<EpochMs>, value: string, until: EpochMs): void {
  const key = indexedText(value, 'token') as string;
  const expiresAt = bigint(until, 'expires_at') as EpochMs;
  table.set(key, Math.max(table.get(key) ?? expiresAt, expiresAt));
}

const unexpired = (table: Table<EpochMs>, now: EpochMs): [string, EpochMs][] =>
  [...table].filter(([, expiresAt]) => expiresAt > now);

export const identityStore = (session: Session): IdentityStore => ({
  upsertUser: (subject) =>
    session.write('identity.upsertUser', [subject], (tables, subject) => {
      const known = tables.users.first(({ iss, sub }) => iss === subject.iss && sub === subject.sub);
      const verified = subject.emailVerified && { email: subject.email, emailVerified: true };
      const row = known ? { ...known, ...verified } : { ...subject, tenantId: null, role: 'none' };
      const user = rowOf(columns, row);
      if (known === undefined && tables.users.has(user.id)) {
        refuse('23505', 'duplicate key value violates unique constraint "users_pkey"');
      }
      tables.users.set(user.id, user);
      return user;
    }),

  user: (id) => session.read('identity.user', [id], (tables, id) => tables.users.get(id) ?? null),

  userBySubject: (iss, sub) =>
    session.read(
      'identity.userBySubject',
      [iss, sub],
      (tables, iss, sub) => tables.users.first((user) => user.iss === iss && user.sub === sub) ?? null,
    ),

  slugTaken: (slug) =>
    session.read(
      'identity.slugTaken',
      [slug],
      (tables, slug) =>
        tables.actors.first(({ ref, columns }) => ref.kind === 'tenant' && columns.slug === slug) !== undefined,
    ),

  revokeToken: (jti, expiresAt) =>
    session.write('identity.revokeToken', [jti, expiresAt], (tables, jti, until) =>
      storeUntil(tables.revokedTokens, jti, until),
    ),

  revokedTokens: (now) =>
    session.read('identity.revokedTokens', [now], (tables, now) =>
      unexpired(tables.revokedTokens, now).map(([jti, expiresAt]) => ({ jti, expiresAt })),
    ),

  isTokenRevoked: (jti) =>
    session.read('identity.isTokenRevoked', [jti], (tables, jti) => tables.revokedTokens.has(jti)),

  markAgentToken: (token) =>
    session.write('identity.markPresented', [token], ({ presentedTokens }, { digest, expiresAt, userId }) => {
      const known = presentedTokens.get(digest);
      presentedTokens.set(digest, {
        expiresAt: Math.max(expiresAt, known?.expiresAt ?? expiresAt),
        userId: known?.userId ?? userId,
      });
    }),

  agentTokens: (now) =>
    session.read('identity.presentedTokens', [now], (tables, now) =>
      [...tables.presentedTokens]
        .filter(([, { expiresAt }]) => expiresAt > now)
        .map(([digest, { expiresAt, userId }]) => ({ digest, expiresAt, userId })),
    ),

  isAgentToken: (digest) =>
    session.read('identity.isAgentToken', [digest], (tables, digest) => tables.presentedTokens.has(digest)),
});
