import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { UserSession, UserSessionKind, UserSessionStore } from '../contract/user-sessions.ts';
import { type Database, idArray } from './database.ts';
import { descendingStart, type ListStatement, readPage } from './keyset-pagination.ts';

interface SessionRow {
  id: Uuid;
  token_id: string;
  user_id: Uuid;
  kind: UserSessionKind;
  client: string | null;
  address: string | null;
  ancestors: string[];
  signed_in_at: EpochMs | null;
  created_at: EpochMs;
  last_used_at: EpochMs;
  expires_at: EpochMs;
}

const names = [
  ...['id', 'token_id', 'user_id', 'kind', 'client', 'address', 'ancestors'],
  ...['signed_in_at', 'created_at', 'last_used_at', 'expires_at'],
];
const columns = names.map((name) => `s.${name}`).join(', ');

const sessionOf = (row: SessionRow): UserSession => ({
  id: row.id,
  tokenId: row.token_id,
  userId: row.user_id,
  kind: row.kind,
  client: row.client,
  address: row.address,
  ancestors: row.ancestors,
  signedInAt: row.signed_in_at,
  createdAt: row.created_at,
  lastUsedAt: row.last_used_at,
  expiresAt: row.expires_at,
});

const rowOf = (session: UserSession): SessionRow => ({
  id: session.id,
  token_id: session.tokenId,
  user_id: session.userId,
  kind: session.kind,
  client: session.client,
  address: session.address,
  ancestors: [...session.ancestors],
  signed_in_at: session.signedInAt,
  created_at: session.createdAt,
  last_used_at: session.lastUsedAt,
  expires_at: session.expiresAt,
});

/** Whether the session `s` of the user `u` is valid; null: not. `$n` is the time. */
const isValid = (
  n: number,
): string => `(u.not_before is null or s.signed_in_at >= u.not_before) and s.expires_at > $${n}
    and not exists (select from revoked_tokens r
      where r.jti = any(array(select jsonb_array_elements_text(s.ancestors)) || s.token_id))`;

const validSessions = (n: number): string => `user_sessions s join users u on u.id = s.user_id and ${isValid(n)}`;

export const userSessionStore = (database: Database): UserSessionStore => ({
  async record(sessions) {
    if (sessions.length === 0) return;
    await database.write({
      name: 'sessions_record',
      text: `insert into user_sessions as s (${names.join(', ')})
        select ${names.map((name) => `g.${name}`).join(', ')} from jsonb_to_recordset($1::jsonb) as g(
          id uuid, token_id text, user_id uuid, kind text, client text, address text, ancestors jsonb,
          signed_in_at bigint, created_at bigint, last_used_at bigint, expires_at bigint)
        order by g.token_id
        on conflict (token_id) do update set last_used_at = greatest(s.last_used_at, excluded.last_used_at)`,
      values: [JSON.stringify(sessions.map(rowOf))],
    });
  },

  async find(id, now) {
    const [row] = await database.read<SessionRow>({
      name: 'session',
      text: `select ${columns} from ${validSessions(2)} where s.id = $1`,
      values: [id, now],
    });
    return row ? sessionOf(row) : null;
  },

  async list(userId, now, limit, after) {
    const statement: ListStatement = {
      name: 'sessions',
      text: `select ${columns} from ${validSessions(2)}
        where s.user_id = $1 and (s.created_at, s.id) < ($3, $4) order by s.created_at desc, s.id desc limit $5`,
      values: (after, rows) => [userId, now, ...descendingStart(after), rows],
    };
    const position = ({ createdAt, id }: UserSession) => ({ createdAt, id });
    return readPage(database, statement, { after, limit, of: sessionOf, position });
  },

  async forget(tokenIds) {
    if (tokenIds.length === 0) return;
    await database.write({
      name: 'sessions_forget',
      text: 'delete from user_sessions where token_id in (select jsonb_array_elements_text($1::jsonb))',
      values: [JSON.stringify(tokenIds)],
    });
  },

  async surplus(userIds, now, max) {
    const rows = await database.read<{ token_id: string; expires_at: EpochMs; valid: boolean }>({
      name: 'sessions_surplus',
      text: `with kept as (
          select s.*, coalesce(${isValid(2)}, false) as valid
          from user_sessions s join users u on u.id = s.user_id
          where s.user_id in (
            select user_id from user_sessions where user_id = any($1::uuid[]) group by user_id having count(*) > $3)),
        parents as (
          select distinct d.user_id, a.id from kept d, jsonb_array_elements_text(d.ancestors) as a(id) where d.valid),
        ranked as (
          select k.*, row_number() over (partition by k.user_id order by k.valid desc,
            (p.id is not null) desc, k.created_at desc, k.id desc) as place
          from kept k left join parents p on p.user_id = k.user_id and p.id = k.token_id)
        select token_id, expires_at, valid from ranked where place > $3 order by user_id, place desc`,
      values: [idArray(userIds), now, max],
    });
    return rows.map(({ token_id: tokenId, expires_at: expiresAt, valid }) => ({ tokenId, expiresAt, valid }));
  },

  async signOut(userId, at, since) {
    const rows = await database.write<{ token_id: string; expires_at: EpochMs }>({
      name: 'user_sign_out',
      text: `with ended as (
          update users set not_before = greatest(not_before, $2) where id = $1 returning id)
        select s.token_id, s.expires_at from user_sessions s join ended e on e.id = s.user_id where s.signed_in_at >= $3`,
      values: [userId, at, since],
    });
    return rows.map(({ token_id: tokenId, expires_at: expiresAt }) => ({ tokenId, expiresAt }));
  },
});
