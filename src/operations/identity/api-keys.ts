import { z } from 'zod';
import { KEY_PREFIX, newApiKey } from '../../domain/api-key.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { atLeast, atMost } from '../../domain/roles.ts';
import {
  ALL_SCOPES,
  keyScopePattern,
  mayGrant,
  readScopes,
  SCOPE_RULE,
  type Scope,
  scopesOfKey,
  storedScopesOf,
} from '../../domain/scopes.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { EpochMs } from '../../domain/values.ts';
import { keyEntry } from '../../services/agent-tokens.ts';
import { keySubject } from '../../store/contract/members.ts';
import type { ApiKey, User } from '../../store/contract.ts';
import {
  cursorAfter,
  cursorsIn,
  displayName,
  isoTime,
  listCount,
  nextCursor,
  notFound,
  paging,
  startOf,
  timeInput,
} from '../inputs.ts';
import { missingNamed } from '../key-reach.ts';
import { type Caller, operation, type Services, tenantOf } from '../operation.ts';
import { restrictedTo, restrictionBody, restrictionOf, restrictTo } from './key-restriction.ts';
import { withMembersLock } from './members.ts';

const MAX_GRACE_S = 86_400;

/** Live keys of one person. */
const MAX_KEYS_PER_USER = 100;

const prefix = z.string().regex(KEY_PREFIX).meta({ noun: 'key', description: 'The 8 characters between the `_`' });
const scopes = z
  .array(
    z
      .string()
      .regex(keyScopePattern, SCOPE_RULE)
      .meta({ examples: ['read:devices', 'execute:commands'] }),
  )
  .min(1, `must name scopes, or \`${ALL_SCOPES}\``)
  .max(100)
  .meta({ description: '`<verb>:<resource>`, with `*` for any; or only `all` for everything that the role allows' });
const key = z.string().meta({ description: 'Shown once' });

const entry = z
  .object({
    prefix: z.string(),
    name: z.string(),
    scopes: z.array(z.string()).meta({ description: '`all` alone: everything that the role allows' }),
    created_at: isoTime,
    created_by: uuid.meta({ description: 'The user that the key acts for' }),
    last_used_at: isoTime.nullable(),
    expires_at: isoTime.nullable(),
    revoked_at: isoTime.nullable(),
    grace_until: isoTime
      .nullable()
      .meta({ description: 'When the grace of a rotated key ends or ended; null if it had none' }),
    restrict_to: restrictedTo.nullable().meta({ description: 'Null if it is not restricted' }),
  })
  .meta({ id: 'ApiKey' });

/** The end of a grace: also by the expiry of the key, its revocation or another rotation. */
const graceEndOf = ({ graceUntil, expiresAt, revokedAt }: ApiKey): EpochMs | null =>
  graceUntil === null ? null : Math.min(graceUntil, expiresAt ?? graceUntil, revokedAt ?? graceUntil);

const isoOrNull = (at: EpochMs | null): string | null => (at === null ? null : iso(at));

function entryOf(services: Pick<Services, 'apiKeys'>, found: ApiKey): z.infer<typeof entry> {
  const lastUse = Math.max(found.lastUsedAt ?? 0, services.apiKeys.lastUse(found.prefix) ?? 0);
  return {
    prefix: found.prefix,
    name: found.name,
    scopes: [...(scopesOfKey(found.scopes) ?? [ALL_SCOPES])],
    created_at: iso(found.createdAt),
    created_by: found.userId,
    last_used_at: isoOrNull(lastUse === 0 ? null : lastUse),
    expires_at: isoOrNull(found.expiresAt),
    revoked_at: isoOrNull(found.revokedAt),
    grace_until: isoOrNull(graceEndOf(found)),
    restrict_to: found.restriction === null ? null : restrictionBody(found.restriction),
  };
}

// For the API reference.
const PREFIX = 'k7qx2m4d';
const KEY = `twk_${PREFIX}_uVn7yQ0Zr7mJ5n5vRkV4b7hQbF2x8m0iZ1o3pWc9sTkexample`;

export const listApiKeys = operation({
  name: 'listApiKeys',
  summary: 'List your API keys, or as an admin all API keys of the tenant, newest first',
  input: z.strictObject({ ...paging }),
  output: z.object({ keys: z.array(entry), count: listCount, next_cursor: nextCursor }),
  role: 'viewer',
  scope: 'read:tenant',
  changes: false,
  example: {
    output: {
      keys: [
        {
          prefix: PREFIX,
          name: 'Night shift',
          scopes: ['read:devices'],
          created_at: '2026-03-01T12:00:00.000Z',
          created_by: '0195d9a2-7f00-7000-8000-000000000005',
          last_used_at: '2026-03-02T08:30:00.000Z',
          expires_at: null,
          revoked_at: null,
          grace_until: null,
          restrict_to: { rooms: ['0195d9a2-7f00-7000-8000-000000000002'], categories: ['light'] },
        },
      ],
      count: 1,
      next_cursor: null,
    },
  },
  needs: ['apiKeys', 'store'],
  async run(services, { input, caller }) {
    const allUsers = atLeast(caller.role, 'admin');
    const userId = allUsers ? null : caller.principal.id;
    const listing = {
      route: 'api-keys',
      filters: { of: userId },
      ids: 'text',
    } as const;
    const start = startOf(listing, input.cursor);
    if (!start.ok) return start;
    const page = await services.store.keys.list(tenantOf(caller), userId, input.limit, start.value);
    const keys = page.items.map((found) => entryOf(services, found));
    return done({
      body: { keys, count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

export const createApiKey = operation({
  name: 'createApiKey',
  summary: 'Create an API key; it acts as you with at most the role admin, and is shown once',
  input: z.strictObject({
    name: displayName,
    scopes,
    expires_at: timeInput.nullable().optional().meta({ description: 'When the key expires' }),
    restrict_to: restrictTo.optional(),
  }),
  output: z.object({ status: z.literal('created'), key, prefix: z.string(), name: z.string() }),
  role: 'viewer',
  scope: 'write:tenant',
  changes: true,
  auditSubject: (_, { prefix }) => `key:${prefix}`,
  personOnly: true,
  refuses: ['NOT_FOUND', 'CONFLICT', 'INSUFFICIENT_SCOPE'],
  example: {
    input: { name: 'Night shift', scopes: ['read:devices'], expires_at: '2027-01-01T00:00:00.000Z' },
    output: { status: 'created', key: KEY, prefix: PREFIX, name: 'Night shift' },
  },
  needs: ['clock', 'locks', 'store'],
  async run(services, { input, caller, idempotent }) {
    const { store, clock } = services;
    const scopes = readScopes(input.scopes);
    if (!scopes.ok) return scopes;
    const granted = checkGrantable(caller, scopes.value);
    if (!granted.ok) return granted;
    const now = clock.now();
    const expiresAt = input.expires_at ? Date.parse(input.expires_at) : null;
    if (expiresAt !== null && expiresAt <= now) return expiryInPast();
    const restriction = input.restrict_to === undefined ? null : restrictionOf(input.restrict_to);
    const missing = restriction === null ? null : await missingNamed(store, tenantOf(caller), restriction);
    if (missing !== null) return notFound(missing);
    return withMembersLock(services, caller, 'shared', async ({ id: userId }) => {
      // One at a time, so that keys that are requested together are counted.
      return services.locks.exclusive(`keys of ${userId}`, async () => {
        if ((await store.keys.live(userId, now)).length >= MAX_KEYS_PER_USER) {
          return refuse('CONFLICT', `You have ${MAX_KEYS_PER_USER} keys, the maximum: revoke some first.`);
        }
        const { key, prefix, hash } = newApiKey();
        const answer = { body: { status: 'created' as const, key, prefix, name: input.name } };
        const created: ApiKey = {
          ...{ prefix, hash, userId, expiresAt },
          tenantId: tenantOf(caller),
          name: input.name,
          scopes: storedScopesOf(scopes.value),
          roleCap: 'admin',
          restriction,
          createdAt: now,
          lastUsedAt: null,
          ...{ revokedAt: null, graceUntil: null, replacedBy: null, replaces: null },
        };
        await store.keys.insert(created, idempotent?.toRow(answer, keySubject(prefix)));
        return done(answer);
      });
    });
  },
});

export const revokeApiKey = operation({
  name: 'revokeApiKey',
  summary: 'Revoke an API key immediately and close the connections that use it',
  input: z.strictObject({ prefix }),
  output: z.object({ status: z.literal('revoked'), prefix: z.string() }),
  role: 'viewer',
  scope: 'write:tenant',
  changes: true,
  personOnly: true,
  inMaintenance: true,
  refuses: ['NOT_FOUND'],
  example: { input: { prefix: PREFIX }, output: { status: 'revoked', prefix: PREFIX } },
  needs: ['apiKeys', 'clock', 'store'],
  async run(services, { input, caller, idempotent }) {
    const { store, apiKeys, clock } = services;
    const found = await findKey(services, caller, input.prefix);
    if (!found.ok) return found;
    const answer = { body: { status: 'revoked' as const, prefix: input.prefix } };
    try {
      await store.keys.revoke(input.prefix, clock.now(), idempotent?.toRow(answer));
    } finally {
      // Even if the commit failed: its outcome may be unknown, so the next use reads the store.
      apiKeys.invalidate(input.prefix);
    }
    return done(answer);
  },
});

export const rotateApiKey = operation({
  name: 'rotateApiKey',
  summary:
    'Replace an API key by one with a new prefix and the same name, scopes, restriction and expiry; the old key is revoked at once, ' +
    'or with grace_s remains valid for that time, which another rotation of the new key ends. ' +
    'An admin who rotates another person’s key becomes the owner of the new one, limited to that person’s current role',
  input: z.strictObject({
    prefix,
    grace_s: z
      .int()
      .min(0)
      .max(MAX_GRACE_S)
      .default(0)
      .meta({ description: 'Seconds for which the old key remains valid' }),
  }),
  output: z.object({ status: z.literal('rotated'), key, prefix: z.string(), name: z.string() }),
  role: 'viewer',
  scope: 'write:tenant',
  changes: true,
  personOnly: true,
  refuses: ['NOT_FOUND', 'CONFLICT', 'FORBIDDEN', 'INSUFFICIENT_SCOPE'],
  example: {
    input: { prefix: 'oldone22', grace_s: 3600 },
    output: { status: 'rotated', key: KEY, prefix: PREFIX, name: 'Night shift' },
  },
  needs: ['agentTokens', 'apiKeys', 'clock', 'locks', 'store'],
  run(services, { input, caller, idempotent }) {
    const { store, agentTokens, apiKeys, clock } = services;
    return withMembersLock(services, caller, 'shared', async (actor) => {
      const found = await findKey(services, { ...caller, role: actor.role }, input.prefix);
      if (!found.ok) return found;
      const old = found.value;
      const granted = checkGrantable(caller, scopesOfKey(old.scopes));
      if (!granted.ok) return granted;
      const now = clock.now();
      // The new key acts for the caller: a program with both would be two users to the rules of confirmations.
      if (input.grace_s > 0 && old.userId !== actor.id) {
        return refuse('FORBIDDEN', 'Only the user of a key can rotate it with a grace.');
      }
      if (old.revokedAt !== null) return refuse('CONFLICT', 'The key is revoked: create a new one.');
      if (old.expiresAt !== null && old.expiresAt <= now) {
        return refuse('CONFLICT', 'The key has expired: create a new one.');
      }
      if (old.replacedBy !== null) return refuse('CONFLICT', 'The key was replaced already: rotate the newer one.');
      const { key, prefix, hash } = newApiKey();
      const { name } = old;
      const answer = { body: { status: 'rotated' as const, key, prefix, name } };
      const roleCap = await capFor(services, old, actor);
      const graceUntil =
        input.grace_s === 0 ? null : Math.min(now + input.grace_s * 1000, old.expiresAt ?? Number.POSITIVE_INFINITY);
      const created: ApiKey = {
        ...{ ...old, prefix, hash, userId: actor.id, roleCap, createdAt: now, lastUsedAt: null },
        replaces: graceUntil === null ? null : old.prefix,
      };
      let ended: string | null = old.replaces;
      // Before the new key exists: it is an agent's from its first use, on every protocol.
      if (await agentTokens.has(old.userId, keyEntry(old.prefix)))
        await agentTokens.add(actor.id, keyEntry(prefix, old.expiresAt));
      try {
        const row = idempotent?.toRow(answer, keySubject(prefix));
        const replaced = await store.keys.replace(old.prefix, created, graceUntil, row);
        if (replaced === false) return refuse('CONFLICT', 'The key has just been revoked or replaced.');
        ended = replaced.ended;
        return done(answer);
      } finally {
        // Even if the commit failed: its outcome may be unknown, so the next use reads the store.
        apiKeys.invalidate(old.prefix, graceUntil);
        if (ended !== null) apiKeys.invalidate(ended);
      }
    });
  },
});

/** The key if the caller may change it: their own, or as an admin any key of the tenant. */
async function findKey({ store }: Pick<Services, 'store'>, caller: Caller, prefix: string): Promise<Outcome<ApiKey>> {
  const found = await store.keys.find(prefix);
  if (found?.tenantId !== tenantOf(caller)) return notFound('key');
  if (found.userId !== caller.principal.id && !atLeast(caller.role, 'admin')) {
    return refuse('FORBIDDEN_ROLE', 'Changing another person’s key requires the role admin.');
  }
  return done(found);
}

/**
 * The role cap of the new key. A key acts only for the user who created it, so rotating another person's key makes it
 * the actor's; the cap ensures that it cannot do more than before.
 */
async function capFor(
  { store }: Pick<Services, 'store'>,
  old: ApiKey,
  actor: Pick<User, 'id'>,
): Promise<ApiKey['roleCap']> {
  if (old.userId === actor.id) return old.roleCap;
  const owner = await store.identity.user(old.userId);
  return atMost(owner?.tenantId === old.tenantId ? owner.role : 'none', old.roleCap);
}

/** A new key must not have more scopes than the credential that creates it. */
function checkGrantable({ scopes: held }: Caller, requested: readonly Scope[] | null): Outcome<null> {
  return mayGrant(held, requested)
    ? done(null)
    : refuse('INSUFFICIENT_SCOPE', 'The key must not have scopes that your credential lacks.');
}

const expiryInPast = () =>
  refuse('VALIDATION_FAILED', 'expires_at: must be in the future', {
    errors: [{ path: 'expires_at', message: 'must be in the future' }],
  });
