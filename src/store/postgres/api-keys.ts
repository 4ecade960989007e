import type { KeyRestriction } from '../../domain/key-restriction.ts';
import type { Role } from '../../domain/roles.ts';
import type { Scope } from '../../domain/scopes.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import { DROPPED_ANSWER } from '../contract/idempotency.ts';
import { type ApiKey, type ApiKeyStore, keySubject } from '../contract/members.ts';
import type { Database, SqlValue } from './database.ts';
import { idempotencyCte, idempotencyParameter, idempotentScope } from './idempotency.ts';
import { pageOf } from './keyset-pagination.ts';

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
}

const columns = `prefix, tenant_id, user_id, name, hash, scopes, role_cap, created_at, last_used_at, expires_at, revoked_at, restriction`;
const placeholders = '$1, $2, $3, $4, $5, $6::jsonb, $7, $8, $9, $10, $11, $12::jsonb';

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
];

/** Sorts after every prefix. */
const LAST = '\u{10ffff}';

export const apiKeyStore = (database: Database): ApiKeyStore => ({
  async insert(key, idempotency) {
    await database.write({
      name: 'key_insert',
      scope: idempotentScope(key.tenantId, idempotency),
      text: `with made as (insert into api_keys (${columns}) values (${placeholders}) returning prefix), ${idempotencyCte(13, 'made')}
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
    const rows = await database.read<KeyRow>({
      name: userId === null ? 'keys' : 'keys_of_user',
      scope: { tenantId },
      text: `select ${columns} from api_keys
        where tenant_id = $1 and (created_at, prefix collate "C") < ($2, $3) ${userId === null ? '' : 'and user_id = $5'}
        order by created_at desc, prefix collate "C" desc limit $4`,
      values: [
        ...[tenantId, after?.createdAt ?? Number.MAX_SAFE_INTEGER, after?.id ?? LAST, limit + 1],
        ...(userId === null ? [] : [userId]),
      ],
    });
    return pageOf(rows.map(keyOf), limit, ({ createdAt, prefix }) => ({ createdAt, id: prefix }));
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

  async replace(prefix, key, idempotency) {
    const rows = await database.write({
      name: 'key_replace',
      text: `with ended as (
          update api_keys set revoked_at = $8 where prefix = $13 and revoked_at is null returning prefix),
        made as (insert into api_keys (${columns}) select ${placeholders} from ended returning prefix),
        dropped as (update idempotency set answer = '${DROPPED_ANSWER}' where subject = $14), ${idempotencyCte(15, 'made')}
        select prefix from made`,
      values: [...valuesOf(key), prefix, keySubject(prefix), idempotencyParameter(idempotency)],
    });
    return rows.length > 0;
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
