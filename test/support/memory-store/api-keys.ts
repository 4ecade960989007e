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
  restriction: nullable(jsonb),
  ...{ graceUntil: nullable(bigint), replacedBy: nullable(text), replaces: nullable(text) },
};

function insertKey(tables: Tables, input: ApiKey, idempotency: OptionalIdempotencyRow): void {
  const key = rowOf(columns, input);
  if (tables.apiKeys.has(key.prefix)) refuse('23505', 'duplicate key value violates unique constraint "api_keys_pkey"');
  tables.apiKeys.set(key.prefix, key);
  putIdempotency(tables, idempotency);
  references(tables.users.has(key.userId), 'api_keys_user_id_fkey');
}

/** Revokes the key at `at`, unless it is revoked, and removes its stored responses, whether the key exists or not. */
export function endKey(tables: Tables, prefix: string, at: EpochMs): void {
  const key = tables.apiKeys.get(prefix);
  const revokedAt = bigint(at, 'revoked_at') as EpochMs;
  if (key !== undefined) tables.apiKeys.set(prefix, { ...key, revokedAt: key.revokedAt ?? revokedAt });
  dropIdempotency(tables, keySubject(prefix));
}

export const apiKeyStore = (session: Session): ApiKeyStore => ({
  insert: (key, idempotency) => session.write('keys.insert', [key, idempotency], insertKey),

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

  revoke: (prefix, at, idempotency) =>
    session.write('keys.revoke', [prefix, at, idempotency], (tables, prefix, at, idempotency) => {
      const existed = tables.apiKeys.has(prefix);
      endKey(tables, prefix, at);
      if (existed) putIdempotency(tables, idempotency);
    }),

  replace: (prefix, key, graceUntil, idempotency) =>
    session.write('keys.replace', [prefix, key, graceUntil, idempotency], (tables, prefix, key, until, idempotency) => {
      const old = tables.apiKeys.get(prefix);
      dropIdempotency(tables, keySubject(prefix));
      if (old === undefined || old.revokedAt !== null || old.replacedBy !== null) return false;
      const graceUntil = until === null ? null : (bigint(until, 'grace_until') as EpochMs);
      if (graceUntil === null) endKey(tables, prefix, key.createdAt);
      else {
        const expiresAt = Math.min(old.expiresAt ?? graceUntil, graceUntil);
        tables.apiKeys.set(prefix, { ...old, graceUntil, expiresAt, replacedBy: key.prefix });
      }
      insertKey(tables, key, idempotency);
      const before = old.replaces === null ? undefined : tables.apiKeys.get(old.replaces);
      if (before === undefined || before.revokedAt !== null) return { ended: null };
      tables.apiKeys.set(before.prefix, { ...before, revokedAt: key.createdAt });
      return { ended: before.prefix };
    }),

  flushUse: (uses) =>
    session.write('keys.flushUse', [uses], (tables, uses) => {
      for (const { prefix, usedAt } of uses) {
        const key = tables.apiKeys.get(prefix);
        if (key) tables.apiKeys.set(prefix, { ...key, lastUsedAt: Math.max(key.lastUsedAt ?? usedAt, usedAt) });
      }
    }),
});
