import { z } from 'zod';
import { memberRoles, sameEmail } from '../../domain/membership.ts';
import { done, refuse } from '../../domain/refusals.ts';
import type { Invitation, User } from '../../store/contract.ts';
import { idOf, notFound } from '../inputs.ts';
import { operation, type Services } from '../operation.ts';

/** Invitations that are shown at a time. */
const MAX_SHOWN = 50;

const role = z.enum(memberRoles);

export const invitationEntry = z.object({ id: z.uuid(), tenant_name: z.string(), role }).meta({ id: 'Invitation' });

/** The invitations that this user may accept: only a verified address is anybody's. */
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
  summary: 'Become a member of the tenant that invited your verified address',
  input: z.strictObject({ id: idOf('invitation') }),
  output: z.object({ tenant_id: z.uuid(), role }),
  role: 'none',
  scope: 'write:tenant',
  changes: true,
  // In the tenant that has a new member now.
  auditSubject: ({ input }, { tenant_id }) => ({ subject: `invitation:${input.id}`, tenantId: tenant_id }),
  personOnly: true,
  refuses: ['CONFLICT'],
  example: { output: { tenant_id: '0195d9a2-7f00-7000-8000-000000000004', role: 'user' } },
  run(services, { input, caller, idempotent }) {
    const { store, actors, users, clock, locks } = services;
    // One at a time, as tenants are registered: nobody gets two.
    return locks.exclusive('registerTenant', async () => {
      const now = clock.now();
      const [user, found] = await Promise.all([
        store.identity.user(caller.principal.id),
        store.members.invitation(input.id, now),
      ]);
      if (user === null) throw new Error('the caller has no row');
      if (found === null || !isFor(found, user)) return notFound('invitation');
      if (user.tenantId !== null) return refuse('CONFLICT', 'You belong to a tenant already: leave it first.');
      const tenant = await actors.read({ kind: 'tenant', id: found.tenantId });
      if (tenant?.snapshot.value !== 'active') return refuse('TENANT_SUSPENDED', 'The tenant is suspended.');
      return locks.exclusive(`members:${found.tenantId}`, async () => {
        // Its role may have changed while this waited.
        const offered = await store.members.invitation(input.id, now);
        if (offered === null) return notFound('invitation');
        const answer = { body: { tenant_id: offered.tenantId, role: roleOf(offered) } };
        try {
          const bound = await store.members.accept(offered, user.id, now, idempotent?.toRow(answer));
          return bound ? done(answer) : notFound('invitation');
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
  if (role === 'none') throw new Error('an invitation offers nothing');
  return role;
};
