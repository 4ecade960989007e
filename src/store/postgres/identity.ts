import type { Role } from '../../domain/roles.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdentityStore, User } from '../contract.ts';
import type { Database } from './database.ts';

interface UserRow {
  id: Uuid;
  iss: string;
  sub: string;
  email: string | null;
  email_verified: boolean;
  tenant_id: Uuid | null;
  role: Role;
  created_at: EpochMs;
  not_before: EpochMs | null;
}

const columns = 'id, iss, sub, email, email_verified, tenant_id, role, created_at, not_before';

const userOf = (row: UserRow): User => ({
  id: row.id,
  iss: row.iss,
  sub: row.sub,
  email: row.email,
  emailVerified: row.email_verified,
  tenantId: row.tenant_id,
  role: row.role,
  createdAt: row.created_at,
  notBefore: row.not_before,
});

const find = (database: Database, iss: string, sub: string): Promise<UserRow[]> =>
  database.read<UserRow>({
    name: 'user_find',
    text: `select ${columns} from users where iss = $1 and sub = $2`,
    values: [iss, sub],
  });

export const identityStore = (database: Database): IdentityStore => ({
  async upsertUser({ id, iss, sub, email, emailVerified, createdAt }) {
    const changed = (row: UserRow): boolean => emailVerified && (row.email !== email || !row.email_verified);
    let [row] = await find(database, iss, sub);
    if (row && !changed(row)) return userOf(row);
    [row] = await database.write<UserRow>({
      name: 'user_upsert',
      text: `insert into users as u (id, iss, sub, email, email_verified, role, created_at)
        values ($1, $2, $3, $4, $5, 'none', $6)
        on conflict (iss, sub) do update set
          email = case when excluded.email_verified then excluded.email else u.email end,
          email_verified = excluded.email_verified or u.email_verified
        returning ${columns}`,
      values: [id, iss, sub, email, emailVerified, createdAt],
    });
    if (!row) throw new Error('the user upsert returned no row');
    return userOf(row);
  },

  async user(id) {
    const [row] = await database.read<UserRow>({
      name: 'user',
      text: `select ${columns} from users where id = $1`,
      values: [id],
    });
    return row ? userOf(row) : null;
  },

  async userBySubject(iss, sub) {
    const [row] = await find(database, iss, sub);
    return row ? userOf(row) : null;
  },

  async slugTaken(slug) {
    const rows = await database.read({
      name: 'tenant_slug',
      text: 'select 1 as taken from tenants where slug = $1',
      values: [slug],
    });
    return rows.length > 0;
  },

  async revokeToken(jti, expiresAt) {
    await database.write({
      name: 'token_revoke',
      text: `insert into revoked_tokens as t (jti, expires_at) values ($1, $2)
        on conflict (jti) do update set expires_at = greatest(t.expires_at, excluded.expires_at)`,
      values: [jti, expiresAt],
    });
  },

  async revokedTokens(now) {
    const rows = await database.read<{ jti: string; expires_at: EpochMs }>({
      name: 'tokens_revoked',
      text: 'select jti, expires_at from revoked_tokens where expires_at > $1',
      values: [now],
    });
    return rows.map(({ jti, expires_at: expiresAt }) => ({ jti, expiresAt }));
  },

  async isTokenRevoked(jti) {
    const rows = await database.read({
      name: 'token_revoked',
      text: 'select 1 as revoked from revoked_tokens where jti = $1',
      values: [jti],
    });
    return rows.length > 0;
  },

  async markAgentToken({ digest, expiresAt, userId }) {
    await database.write({
      name: 'token_presented',
      text: `insert into presented_tokens as t (digest, expires_at, user_id) values ($1, $2, $3)
        on conflict (digest) do update set expires_at = greatest(t.expires_at, excluded.expires_at),
          user_id = coalesce(t.user_id, excluded.user_id)`,
      values: [digest, expiresAt, userId],
    });
  },

  async agentTokens(now) {
    const rows = await database.read<{ digest: string; expires_at: EpochMs; user_id: Uuid | null }>({
      name: 'tokens_presented',
      text: 'select digest, expires_at, user_id from presented_tokens where expires_at > $1',
      values: [now],
    });
    return rows.map(({ digest, expires_at: expiresAt, user_id: userId }) => ({ digest, expiresAt, userId }));
  },

  async isAgentToken(digest) {
    const rows = await database.read({
      name: 'token_is_presented',
      text: 'select 1 as presented from presented_tokens where digest = $1',
      values: [digest],
    });
    return rows.length > 0;
  },
});
