import type { EpochMs } from '../../../src/domain/values.ts';
import { type ApiKey, type ApiKeyStore, keySubject } from '../../../src/store/contract/members.ts';
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
import { dropIdempotency, type OptionalIdempotencyRow, putIdempotency } from './idempotency.ts';
import { newestFirst } from './keyset-pagination.ts';
import type { Session } from './session.ts';

const columns: Columns<ApiKey> = {
  ...{ prefix: indexedText, tenantId: uuid, userId: uuid, name: text, hash: text, scopes: jsonb, roleCap: text },
  ...{ createdAt: bigint, lastUsedAt: nullable(bigint), expiresAt: nullable(bigint), revokedAt: nullable(bigint) },
};

function insertKey(tables: Tables, given: ApiKey, also: OptionalIdempotencyRow): void {
  const key = rowOf(columns, given);
  if (tables.apiKeys.has(key.prefix)) refuse('23505', 'duplicate key value violates unique constraint "api_keys_pkey"');
  tables.apiKeys.set(key.prefix, key);
  putIdempotency(tables, also);
  references(tables.users.has(key.userId), 'api_keys_user_id_fkey');
}

/** Dead from `at`, unless it was before; and its stored answers are dropped, whether there is such a key or not. */
export function endKey(tables: Tables, prefix: string, at: EpochMs): void {
  const key = tables.apiKeys.get(prefix);
  const revokedAt = bigint(at, 'revoked_at') as EpochMs;
  if (key !== undefined) tables.apiKeys.set(prefix, { ...key, revokedAt: key.revokedAt ?? revokedAt });
  dropIdempotency(tables, keySubject(prefix));
}

export const apiKeyStore = (session: Session): ApiKeyStore => ({
  insert: (key, also) => session.write('keys.insert', [key, also], insertKey),

  find: (prefix) => session.read('keys.find', [prefix], (tables, prefix) => tables.apiKeys.get(prefix) ?? null),

  list: (tenantId, userId, limit, after) =>
    session.read('keys.list', [tenantId, userId, limit, after], (tables, tenantId, userId, limit, after) => {
      const own = tables.apiKeys.where(
        (key) => key.tenantId === tenantId && (userId === null || key.userId === userId),
      );
      return newestFirst(own, ({ createdAt, prefix }) => ({ createdAt, id: prefix }), limit, after);
    }),

  live: (userId, now) =>
    session.read('keys.live', [userId, now], (tables, userId, now) =>
      tables.apiKeys
        .where((key) => key.userId === userId && key.revokedAt === null && (key.expiresAt ?? now + 1) > now)
        .map(({ prefix }) => prefix),
    ),

  revoke: (prefix, at, also) =>
    session.write('keys.revoke', [prefix, at, also], (tables, prefix, at, also) => {
      const existed = tables.apiKeys.has(prefix);
      endKey(tables, prefix, at);
      if (existed) putIdempotency(tables, also);
    }),

  replace: (prefix, key, also) =>
    session.write('keys.replace', [prefix, key, also], (tables, prefix, key, also) => {
      const replaced = tables.apiKeys.get(prefix)?.revokedAt === null;
      if (replaced) {
        endKey(tables, prefix, key.createdAt);
        insertKey(tables, key, also);
      } else dropIdempotency(tables, keySubject(prefix));
      return replaced;
    }),

  flushUse: (uses) =>
    session.write('keys.flushUse', [uses], (tables, uses) => {
      for (const { prefix, usedAt } of uses) {
        const key = tables.apiKeys.get(prefix);
        if (key) tables.apiKeys.set(prefix, { ...key, lastUsedAt: Math.max(key.lastUsedAt ?? usedAt, usedAt) });
      }
    }),
});
