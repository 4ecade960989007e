import { z } from 'zod';
import { memberRoleSchema } from '../../domain/enum-schemas.ts';
import { sameEmail } from '../../domain/membership.ts';
import { done, refuse } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Invitation, User } from '../../store/contract.ts';
import { idOf, notFound } from '../inputs.ts';
import { operation, type Services } from '../operation.ts';

/** Invitations shown at once. */
const MAX_SHOWN = 50;

const role = memberRoleSchema;

export const invitationEntry = z.object({ id: uuid, tenant_name: z.string(), role }).meta({ id: 'Invitation' });

/** The invitations that this user may accept; requires a verified email. */
export async function invitationsOf(
  { store, clock }: Pick<Services, 'store' | 'clock'>,
  { email, emailVerified }: User,
): Promise<z.infer<typeof invitationEntry>[]> {
  if (email === null || !emailVerified) return [];
  const found = await store.members.invitationsFor(email, clock.now(), MAX_SHOWN);
  return found.map(({ id, tenantName, role }) => ({ id, tenant_name: tenantName, role: roleOf({ role }) }));
}

export const acceptInvitation = operation({
  name: 'acceptInvitation',
  summary: 'Accept an invitation to your verified email and become a member of the tenant',
  input: z.strictObject({ id: idOf('invitation') }),
  output: z.object({ tenant_id: uuid, role }),
  role: 'none',
  scope: 'write:tenant',
  changes: true,
  // The row belongs to the tenant that was joined.
  auditSubject: ({ input }, { tenant_id }) => ({ subject: `invitation:${input.id}`, tenantId: tenant_id }),
  personOnly: true,
  refuses: ['CONFLICT'],
  example: { output: { tenant_id: '0195d9a2-7f00-7000-8000-000000000004', role: 'user' } },
  needs: ['actors', 'clock', 'locks', 'store', 'users'],
  run(services, { input, caller, idempotent }) {
    const { store, actors, users, clock, locks } = services;
    // Same lock as registerTenant: a user never gets two tenants.
    return locks.exclusive('registerTenant', async () => {
      const now = clock.now();
      const [user, found] = await Promise.all([
        store.identity.user(caller.principal.id),
        store.members.invitation(input.id, now),
      ]);
      if (user === null) throw new Error('the caller has no user row');
      if (found === null || !isFor(found, user)) return notFound('invitation');
      if (user.tenantId !== null) return refuse('CONFLICT', 'You are already a member of a tenant: leave it first.');
      const tenant = await actors.read({ kind: 'tenant', id: found.tenantId });
      if (tenant?.snapshot.value !== 'active') return refuse('TENANT_SUSPENDED', 'The tenant is suspended.');
      return locks.exclusive(`members:${found.tenantId}`, async () => {
        // Read again under the lock: its role may have changed.
        const current = await store.members.invitation(input.id, now);
        if (current === null) return notFound('invitation');
        const answer = { body: { tenant_id: current.tenantId, role: roleOf(current) } };
        try {
          const accepted = await store.members.accept(current, user.id, now, idempotent?.toRow(answer));
          return accepted ? done(answer) : notFound('invitation');
        } finally {
          users.invalidate(user.id);
        }
      });
    });
  },
});

const isFor = ({ email }: Invitation, user: User): boolean =>
  user.emailVerified && user.email !== null && sameEmail(user.email, email);

const roleOf = ({ role }: Pick<Invitation, 'role'>): z.infer<typeof invitationEntry>['role'] => {
  if (role === 'none') throw new Error('an invitation has the role none');
  return role;
};
