import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { EventFailed } from '../../actors/contract.ts';
import { done, refuse } from '../../domain/refusals.ts';
import { slugFrom } from '../../domain/slug.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { MachineEvent } from '../../machines/definition.ts';
import type { TenantContext, TenantEvent } from '../../machines/tenant-types.ts';
import { CommitUnknown, DataRefused, type IdentityStore } from '../../store/contract.ts';
import { displayName, notFound } from '../inputs.ts';
import { type Call, operation, type Services, tenantOf } from '../operation.ts';
import { tenantBody, tenantRecord } from '../platform/administration.ts';

export const getTenant = operation({
  name: 'getTenant',
  summary: 'Show your tenant, also while it is suspended',
  input: z.strictObject({}),
  output: z.object({ tenant: tenantRecord }),
  role: 'viewer',
  scope: 'read:tenant',
  restrictedKeys: 'unaffected',
  changes: false,
  inSuspension: true,
  refuses: ['NOT_FOUND'],
  example: {
    output: {
      tenant: {
        ...{ id: '0195d9a2-7f00-7000-8000-000000000004', name: 'Lakeside', slug: 'lakeside', tier: 'free' },
        ...{ status: 'active', created_at: { _seconds: 1_772_366_400, _nanoseconds: 0 } },
      },
    },
  },
  needs: ['actors'],
  async run({ actors }, { caller }) {
    const found = await actors.read<TenantContext>({ kind: 'tenant', id: tenantOf(caller) });
    if (found === null) return notFound('tenant');
    const { id, name, slug, tier, createdAt } = found.snapshot.context.fixed;
    const suspended = found.snapshot.value !== 'active';
    return done({ body: { tenant: tenantBody({ id, name, slug, tier, createdAt, suspended }) } });
  },
});

export const registerTenant = operation({
  name: 'registerTenant',
  summary: 'Register a tenant and become its owner',
  input: z.strictObject({ tenant_name: displayName }),
  output: z.object({ tenant_id: uuid, user_id: uuid }),
  role: 'none',
  scope: 'write:tenant',
  changes: true,
  audit: 'journal',
  stoppedBy: 'registration_lock',
  refuses: ['CONFLICT'],
  example: {
    input: { tenant_name: 'Lakeside' },
    output: {
      tenant_id: '0195d9a2-7f00-7000-8000-000000000004',
      user_id: '0195d9a2-7f00-7000-8000-000000000005',
    },
  },
  needs: ['actors', 'clock', 'locks', 'newTenantId', 'settings', 'store', 'users'],
  run(services, { input, caller, idempotent }) {
    // Serialized, so that the tenants of this process do not compete for a slug.
    return services.locks.exclusive('registerTenant', async () => {
      for (let attempt = 1; ; attempt++) {
        try {
          return await register(services, input.tenant_name, { caller, idempotent });
        } catch (error) {
          // Another node may have taken the slug or bound the user since they were read.
          if (!isTaken(error) || attempt === MAX_ATTEMPTS) throw error;
        }
      }
    });
  },
});

const MAX_ATTEMPTS = 3;
const UNIQUE_VIOLATION = '23505';

const isTaken = (error: unknown): boolean =>
  error instanceof EventFailed && error.cause instanceof DataRefused && error.cause.sqlState === UNIQUE_VIOLATION;

type Registering = Pick<Services, 'actors' | 'clock' | 'newTenantId' | 'settings' | 'store' | 'users'>;

/** Throws `EventFailed` if the slug or the user was taken since they were read: the database has constraints for both. */
async function register(
  { store, actors, users, clock, newTenantId, settings }: Registering,
  name: string,
  { caller, idempotent }: Pick<Call<unknown>, 'caller' | 'idempotent'>,
) {
  const user = await store.identity.user(caller.principal.id);
  if (user === null) throw new Error('the caller has no user row');
  if (user.tenantId !== null) return refuse('CONFLICT', 'You are already a member of a tenant.');
  const id = newTenantId();
  const slug = await freeSlug(store.identity, name);
  const event = {
    ...{ type: 'register', at: clock.now(), by: caller.principal, ownerId: user.id },
    tenant: { id, name, slug, tier: settings.defaultTier },
  } satisfies TenantEvent & MachineEvent;
  const answer = { body: { tenant_id: id, user_id: user.id } };
  try {
    await actors.create({ kind: 'tenant', id }, event, { idempotency: () => idempotent?.toRow(answer) ?? null });
  } catch (fault) {
    // A use before the end of the commit may cache the user without the tenant.
    if (fault instanceof CommitUnknown) void fault.ended?.then(() => users.invalidate(user.id));
    throw fault;
  } finally {
    // Even if the commit failed: its outcome may be unknown, so the next use reads the store.
    users.invalidate(user.id);
  }
  return done(answer);
}

async function freeSlug(store: IdentityStore, name: string): Promise<string> {
  for (let n = 1; n < 10; n++) {
    const slug = n === 1 ? slugFrom(name) : slugFrom(name, n);
    if (!(await store.slugTaken(slug))) return slug;
  }
  // A popular name: a random suffix instead of more queries.
  return slugFrom(name, randomBytes(4).toString('hex'));
}
