import type { KeyRestriction } from '../../domain/key-restriction.ts';
import type { Role } from '../../domain/roles.ts';
import type { Scope } from '../../domain/scopes.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import { DROPPED_ANSWER } from '../contract/idempotency.ts';
import { type ApiKey, type ApiKeyStore, keySubject } from '../contract/members.ts';
import type { Database, SqlValue } from './database.ts';
import { idempotencyCte, idempotencyParameter, idempotentScope } from './idempotency.ts';
import { type ListStatement, readPage } from './keyset-pagination.ts';

interface KeyRow {
  prefix: string;
  tenant_id: Uuid;
  user_id: Uuid;
  name: string;
  hash: string;
  scopes: Scope[];
  role_cap: Role;
  restriction: KeyRestriction | null;
  created_at: EpochMs;
  last_used_at: EpochMs | null;
  expires_at: EpochMs | null;
  revoked_at: EpochMs | null;
  grace_until: EpochMs | null;
  replaced_by: string | null;
  replaces: string | null;
}

const columns = `prefix, tenant_id, user_id, name, hash, scopes, role_cap, created_at, last_used_at, expires_at, revoked_at, restriction, grace_until, replaced_by, replaces`;
const placeholders = '$1, $2, $3, $4, $5, $6::jsonb, $7, $8, $9, $10, $11, $12::jsonb, $13, $14, $15';

/**
 * Before the stored hash of a restricted key. A build that does not know restrictions finds that no text has this hash, and
 * refuses the key.
 */
const RESTRICTED = 'restricted:';

const keyOf = (row: KeyRow): ApiKey => ({
  prefix: row.prefix,
  tenantId: row.tenant_id,
  userId: row.user_id,
  name: row.name,
  hash: row.restriction === null ? row.hash : row.hash.slice(RESTRICTED.length),
  scopes: row.scopes,
  roleCap: row.role_cap,
  createdAt: row.created_at,
  lastUsedAt: row.last_used_at,
  expiresAt: row.expires_at,
  revokedAt: row.revoked_at,
  restriction: row.restriction,
  graceUntil: row.grace_until,
  replacedBy: row.replaced_by,
  replaces: row.replaces,
});

const valuesOf = (key: ApiKey): SqlValue[] => [
  key.prefix,
  key.tenantId,
  key.userId,
  key.name,
  key.restriction === null ? key.hash : RESTRICTED + key.hash,
  JSON.stringify(key.scopes),
  key.roleCap,
  key.createdAt,
  key.lastUsedAt,
  key.expiresAt,
  key.revokedAt,
  key.restriction && JSON.stringify(key.restriction),
  key.graceUntil,
  key.replacedBy,
  key.replaces,
];

/** Sorts after every prefix. */
const LAST = '\u{10ffff}';

export const apiKeyStore = (database: Database): ApiKeyStore => ({
  async insert(key, idempotency) {
    await database.write({
      name: 'key_insert',
      scope: idempotentScope(key.tenantId, idempotency),
      text: `with made as (insert into api_keys (${columns}) values (${placeholders}) returning prefix), ${idempotencyCte(16, 'made')}
        select prefix from made`,
      values: [...valuesOf(key), idempotencyParameter(idempotency)],
    });
  },

  async find(prefix) {
    const [row] = await database.read<KeyRow>({
      name: 'key',
      text: `select ${columns} from api_keys where prefix = $1`,
      values: [prefix],
    });
    return row ? keyOf(row) : null;
  },

  async list(tenantId, userId, limit, after) {
    const statement: ListStatement = {
      name: userId === null ? 'keys' : 'keys_of_user',
      scope: { tenantId },
      text: `select ${columns} from api_keys
        where tenant_id = $1 and (created_at, prefix collate "C") < ($2, $3) ${userId === null ? '' : 'and user_id = $5'}
        order by created_at desc, prefix collate "C" desc limit $4`,
      values: (after, rows) => [
        ...[tenantId, after?.createdAt ?? Number.MAX_SAFE_INTEGER, after?.id ?? LAST, rows],
        ...(userId === null ? [] : [userId]),
      ],
    };
    const position = ({ createdAt, prefix }: ApiKey) => ({ createdAt, id: prefix });
    return readPage(database, statement, { after, limit, of: keyOf, position });
  },

  async live(userId, now) {
    const rows = await database.read<{ prefix: string }>({
      name: 'keys_live',
      text: `select prefix from api_keys
        where user_id = $1 and revoked_at is null and (expires_at is null or expires_at > $2)`,
      values: [userId, now],
    });
    return rows.map(({ prefix }) => prefix);
  },

  async revoke(prefix, at, idempotency) {
    await database.write({
      name: 'key_revoke',
      text: `with ended as (
          update api_keys set revoked_at = coalesce(revoked_at, $2) where prefix = $1 returning prefix),
        dropped as (update idempotency set answer = '${DROPPED_ANSWER}' where subject = $3), ${idempotencyCte(4, 'ended')}
        select prefix from ended`,
      values: [prefix, at, keySubject(prefix), idempotencyParameter(idempotency)],
    });
  },

  async replace(prefix, key, graceUntil, idempotency) {
    const [row] = await database.write<{ ended: string | null }>({
      name: 'key_replace',
      text: `with old as (
          update api_keys set revoked_at = case when $18::bigint is null then $8::bigint end, grace_until = $18,
            expires_at = least(expires_at, $18), replaced_by = case when $18::bigint is null then null else $1::text end
          where prefix = $16 and revoked_at is null and replaced_by is null returning prefix, replaces),
        made as (insert into api_keys (${columns}) select ${placeholders} from old returning prefix),
        before as (
          update api_keys set revoked_at = $8 from old
          where api_keys.prefix = old.replaces and api_keys.revoked_at is null returning api_keys.prefix),
        dropped as (update idempotency set answer = '${DROPPED_ANSWER}' where subject = $17), ${idempotencyCte(19, 'made')}
        select (select prefix from before) as ended from made`,
      values: [...valuesOf(key), prefix, keySubject(prefix), graceUntil, idempotencyParameter(idempotency)],
    });
    return row ?? false;
  },

  async flushUse(uses) {
    if (uses.length === 0) return;
    await database.write({
      name: 'keys_used',
      text: `update api_keys k set last_used_at = greatest(k.last_used_at, u."usedAt")
        from jsonb_to_recordset($1::jsonb) as u(prefix text, "usedAt" bigint) where k.prefix = u.prefix`,
      values: [JSON.stringify(uses)],
    });
  },
});
