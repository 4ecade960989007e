import type { EpochMs } from '../../../src/domain/values.ts';
import type { UserSession, UserSessionStore } from '../../../src/store/contract/user-sessions.ts';
import {
  bigint,
  type Columns,
  indexedText,
  jsonb,
  nullable,
  references,
  refuse,
  rowOf,
  text,
  uuid,
} from './columns.ts';
import type { Tables } from './database.ts';
import { newestFirst } from './keyset-pagination.ts';
import type { Session } from './session.ts';

const columns: Columns<UserSession> = {
  ...{ id: uuid, tokenId: indexedText, userId: uuid, kind: text, client: nullable(text), address: nullable(text) },
  ...{ ancestors: jsonb, signedInAt: nullable(bigint), createdAt: bigint, lastUsedAt: bigint, expiresAt: bigint },
};

function isValid(tables: Tables, session: UserSession, now: EpochMs): boolean {
  const notBefore = tables.users.get(session.userId)?.notBefore ?? null;
  if (session.expiresAt <= now) return false;
  if (notBefore !== null && (session.signedInAt ?? Number.NEGATIVE_INFINITY) < notBefore) return false;
  return ![session.tokenId, ...session.ancestors].some((id) => tables.revokedTokens.has(id));
}

export const userSessionStore = (session: Session): UserSessionStore => ({
  record: (sessions) =>
    session.write('userSessions.record', [sessions], (tables, sessions) => {
      for (const given of sessions) {
        const row = rowOf(columns, given);
        const known = tables.userSessions.get(row.tokenId);
        if (!known && tables.userSessions.first(({ id }) => id === row.id)) {
          refuse('23505', 'duplicate key value violates unique constraint "user_sessions_pkey"');
        }
        const stored = known ? { ...known, lastUsedAt: Math.max(known.lastUsedAt, row.lastUsedAt) } : row;
        tables.userSessions.set(row.tokenId, stored);
        references(tables.users.has(row.userId), 'user_sessions_user_id_fkey');
      }
    }),

  find: (id, now) =>
    session.read('userSessions.find', [id, now], (tables, id, now) => {
      const found = tables.userSessions.first((one) => one.id === id);
      return found !== undefined && isValid(tables, found, now) ? found : null;
    }),

  list: (userId, now, limit, after) =>
    session.read('userSessions.list', [userId, now, limit, after], (tables, userId, now, limit, after) => {
      const valid = tables.userSessions.where((one) => one.userId === userId && isValid(tables, one, now));
      return newestFirst(valid, ({ createdAt, id }) => ({ createdAt, id }), limit, after);
    }),

  forget: (tokenIds) =>
    session.write('userSessions.forget', [tokenIds], (tables, tokenIds) => {
      for (const tokenId of tokenIds) tables.userSessions.delete(tokenId);
    }),

  surplus: (userIds, now, max) =>
    session.read('userSessions.surplus', [userIds, now, max], (tables, userIds, now, max) =>
      [...new Set(userIds)].sort().flatMap((userId) => {
        const rows = tables.userSessions.where((one) => one.userId === userId);
        const valid = rows.filter((one) => isValid(tables, one, now));
        const origins = new Set(valid.flatMap(({ ancestors }) => ancestors));
        const rank = (one: UserSession) => (valid.includes(one) ? 2 : 0) + (origins.has(one.tokenId) ? 1 : 0);
        const { items } = newestFirst(rows, ({ createdAt, id }) => ({ createdAt, id }), rows.length);
        return [...items]
          .sort((a, b) => rank(b) - rank(a))
          .slice(max)
          .reverse()
          .map((one) => ({ tokenId: one.tokenId, expiresAt: one.expiresAt, valid: valid.includes(one) }));
      }),
    ),

  signOut: (userId, at, since) =>
    session.write('userSessions.signOut', [userId, at, since], (tables, userId, at, since) => {
      const user = tables.users.get(userId);
      if (user === undefined) return [];
      tables.users.set(userId, { ...user, notBefore: Math.max(user.notBefore ?? at, at) });
      return tables.userSessions
        .where((one) => one.userId === userId && one.signedInAt !== null && one.signedInAt >= since)
        .map(({ tokenId, expiresAt }) => ({ tokenId, expiresAt }));
    }),
});
