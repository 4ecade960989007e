import { z } from 'zod';
import { memberRoleSchema } from '../../domain/enum-schemas.ts';
import { mayDecideOn } from '../../domain/membership.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { atMost, type Role } from '../../domain/roles.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Member, User } from '../../store/contract.ts';
import { cursorAfter, cursorsIn, idOf, listCount, nextCursor, notFound, paging, startOf } from '../inputs.ts';
import { type Caller, operation, type Services, tenantOf } from '../operation.ts';
import { withdrawRequests } from './withdrawn-requests.ts';

/** Per tenant. */
const MAX_OPEN_INVITATIONS = 100;
const INVITATION_LIFE_MS = 14 * 24 * 60 * 60 * 1000;

const email = z.email().max(254);
const role = memberRoleSchema;
const member = z
  .object({
    id: uuid.meta({ description: 'The user’s id, or the invitation’s id while invited' }),
    email: z.string().nullable(),
    role,
    status: z.enum(['active', 'invited']),
  })
  .meta({ id: 'Member' });

const memberBody = ({ id, email, role, status }: Omit<Member, 'createdAt'>) => ({
  ...{ id, email, status },
  role: role as z.infer<typeof member>['role'],
});

// For the API reference.
const BEA = {
  id: '0195d9a2-7f00-7000-8000-000000000006',
  email: 'bea@example.com',
  role: 'user',
  status: 'invited',
} as const;

/**
 * Runs work that depends on the tenant's members and their roles: `exclusive` to change them, `shared` to rely on them.
 * `actor` is the caller's current row in the store.
 */
export function withMembersLock<T>(
  services: Pick<Services, 'locks' | 'store'>,
  caller: Caller,
  mode: 'exclusive' | 'shared',
  work: (actor: User) => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  const tenantId = tenantOf(caller);
  return services.locks[mode](`members:${tenantId}`, async () => {
    const user = await services.store.identity.user(caller.principal.id);
    if (user?.tenantId !== tenantId) return refuse('TENANT_REQUIRED', 'You are no longer a member of this tenant.');
    return work({ ...user, role: atMost(user.role, caller.role) });
  });
}

export const listMembers = operation({
  name: 'listMembers',
  summary: 'List the members of the tenant and its open invitations, newest first',
  input: z.strictObject({ ...paging }),
  output: z.object({ members: z.array(member), count: listCount, next_cursor: nextCursor }),
  role: 'admin',
  scope: 'read:tenant',
  changes: false,
  example: {
    output: {
      members: [
        BEA,
        { id: '0195d9a2-7f00-7000-8000-000000000005', email: 'ada@example.com', role: 'owner', status: 'active' },
      ],
      count: 1,
      next_cursor: null,
    },
  },
  needs: ['clock', 'store'],
  async run({ store, clock }, { input, caller }) {
    const listing = { route: 'members' };
    const start = startOf(listing, input.cursor);
    if (!start.ok) return start;
    const page = await store.members.list(tenantOf(caller), clock.now(), input.limit, start.value);
    return done({
      body: { members: page.items.map(memberBody), count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

export const inviteMember = operation({
  name: 'inviteMember',
  summary:
    'Invite a person by email; they become a member by accepting within 14 days, signed in with that verified email',
  input: z.strictObject({ email, role }),
  output: z.object({ member }),
  role: 'admin',
  scope: 'write:tenant',
  changes: true,
  auditSubject: (_, { member }) => `invitation:${member.id}`,
  personOnly: true,
  refuses: ['CONFLICT'],
  example: { input: { email: BEA.email, role: 'user' }, output: { member: BEA } },
  needs: ['clock', 'locks', 'newId', 'store'],
  run(services, { input, caller, idempotent }) {
    const { store, clock, newId } = services;
    const tenantId = tenantOf(caller);
    return withMembersLock(services, caller, 'exclusive', async (actor) => {
      if (!mayDecideOn(actor.role, input.role)) return aboveOwnRole();
      const now = clock.now();
      const existing = await store.members.byEmail(tenantId, input.email, now);
      if (existing !== null) {
        return refuse(
          'CONFLICT',
          existing.status === 'active' ? 'This person is a member already.' : 'This person is invited already.',
        );
      }
      if ((await store.members.countInvited(tenantId, now)) >= MAX_OPEN_INVITATIONS) {
        return refuse(
          'CONFLICT',
          `The tenant has ${MAX_OPEN_INVITATIONS} open invitations, the maximum: withdraw some first.`,
        );
      }
      const id = newId();
      const { email, role } = input;
      const answer = { body: { member: memberBody({ id, email, role, status: 'invited' }) } };
      const expiresAt = now + INVITATION_LIFE_MS;
      const invitation = { id, tenantId, email, role, invitedBy: actor.id, createdAt: now, expiresAt };
      await store.members.invite(invitation, idempotent?.toRow(answer));
      return done(answer);
    });
  },
});

export const changeMember = operation({
  name: 'changeMember',
  summary: 'Change the role of a member or of an invitation',
  input: z.strictObject({ userId: idOf('member'), role }),
  output: z.object({ member }),
  role: 'admin',
  scope: 'write:tenant',
  changes: true,
  personOnly: true,
  refuses: ['CONFLICT'],
  example: { input: { role: 'admin' }, output: { member: { ...BEA, role: 'admin', status: 'active' } } },
  needs: ['clock', 'locks', 'store', 'users'],
  run(services, { input, caller }) {
    const { store, clock, users } = services;
    const tenantId = tenantOf(caller);
    const { userId, role } = input;
    return withMembersLock(services, caller, 'exclusive', async (actor) => {
      const found = await store.members.find(tenantId, userId, clock.now());
      if (found === null) return notFound('member');
      if (!mayDecideOn(actor.role, found.role) || !mayDecideOn(actor.role, role)) return aboveOwnRole();
      if (found.status === 'invited') await store.members.updateInvitation(userId, role, actor.id);
      else {
        if (role !== 'owner' && (await isLastOwner(services, found, tenantId))) return lastOwner();
        try {
          await store.members.setRole(tenantId, userId, role);
        } finally {
          // Even if the commit failed: its outcome may be unknown, so the next use reads the store.
          users.invalidate(userId);
        }
      }
      return done({ body: { member: memberBody({ ...found, role }) } });
    });
  },
});

export const removeMember = operation({
  name: 'removeMember',
  summary:
    'Remove a member with all their API keys and requests that wait for a confirmation, or withdraw an invitation; every member may remove themselves',
  input: z.strictObject({ userId: idOf('member') }),
  output: z.null(),
  role: 'viewer',
  scope: 'write:tenant',
  changes: true,
  personOnly: true,
  refuses: ['CONFLICT'],
  needs: ['actors', 'apiKeys', 'clock', 'locks', 'log', 'store', 'users'],
  async run(services, { input: { userId }, caller }) {
    const { store, clock, users, apiKeys } = services;
    const tenantId = tenantOf(caller);
    let isRemoved = false;
    const outcome = await withMembersLock(services, caller, 'exclusive', async (actor) => {
      const self = userId === actor.id;
      if (!self && !mayDecideOn(actor.role, 'none')) {
        return refuse('FORBIDDEN_ROLE', 'Removing another member requires the role admin.');
      }
      const found = await store.members.find(tenantId, userId, clock.now());
      if (found === null) return notFound('member');
      if (!self && !mayDecideOn(actor.role, found.role)) return aboveOwnRole();
      if (found.status === 'invited') {
        await store.members.deleteInvitation(userId);
        return done({ body: null });
      }
      if (await isLastOwner(services, found, tenantId)) return lastOwner();
      const keys = await store.keys.live(userId, clock.now());
      try {
        await store.members.remove(tenantId, userId, clock.now());
      } finally {
        users.invalidate(userId);
        for (const prefix of keys) apiKeys.invalidate(prefix);
      }
      isRemoved = true;
      return done({ body: null });
    });
    // Without the lock, because there may be many requests.
    if (isRemoved) await withdrawRequests(services, caller, userId);
    return outcome;
  },
});

const isLastOwner = async (
  { store }: Pick<Services, 'store'>,
  { role }: { role: Role },
  tenantId: string,
): Promise<boolean> => role === 'owner' && (await store.members.countOwners(tenantId)) <= 1;

const lastOwner = () =>
  refuse('CONFLICT', 'A tenant must have at least one owner: make another member an owner first.');
const aboveOwnRole = () => refuse('FORBIDDEN_ROLE', 'You cannot grant, change or remove a role above your own.');
