import { atLeast } from '../../../src/domain/roles.ts';
import type { EpochMs, Uuid } from '../../../src/domain/values.ts';
import type { Invitation, Member, MemberStore } from '../../../src/store/contract/members.ts';
import { endKey } from './api-keys.ts';
import { bigint, type Columns, indexedText, references, refuse, rowOf, text, uuid } from './columns.ts';
import { actorKey, type Tables } from './database.ts';
import { putIdempotency } from './idempotency.ts';
import { newestFirst } from './keyset-pagination.ts';
import type { Session } from './session.ts';

const columns: Columns<Invitation> = {
  ...{
    id: uuid,
    tenantId: uuid,
    email: indexedText,
    role: text,
    invitedBy: uuid,
    createdAt: bigint,
    expiresAt: bigint,
  },
};

/** Folds only ASCII letters. */
const folded = (email: string): string => email.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
const sameEmail = (a: string | null, b: string): boolean => a !== null && folded(a) === folded(b);

/** Valid invitations: not expired, and the inviter may still grant the role. */
const validInvitations = (tables: Tables, now: EpochMs): Invitation[] =>
  tables.invitations.where(({ tenantId, invitedBy, role, expiresAt }) => {
    const inviter = tables.users.get(invitedBy);
    if (inviter?.tenantId !== tenantId || expiresAt <= now) return false;
    return atLeast(inviter.role, 'admin') && atLeast(inviter.role, role);
  });

function membersOf(tables: Tables, tenantId: Uuid, now: EpochMs): Member[] {
  const active = tables.users
    .where((user) => user.tenantId === tenantId)
    .map(({ id, email, role, createdAt }) => ({ id, email, role, status: 'active' as const, createdAt }));
  const invited = validInvitations(tables, now)
    .filter((one) => one.tenantId === tenantId)
    .map(({ id, email, role, createdAt }) => ({ id, email, role, status: 'invited' as const, createdAt }));
  return [...active, ...invited];
}

type Reads = Pick<
  MemberStore,
  'list' | 'find' | 'byEmail' | 'countInvited' | 'countOwners' | 'invitation' | 'invitationsFor'
>;

const reads = (session: Session): Reads => ({
  list: (tenantId, now, limit, after) =>
    session.read('members.list', [tenantId, now, limit, after], (tables, tenantId, now, limit, after) =>
      newestFirst(membersOf(tables, tenantId, now), (one) => one, limit, after),
    ),

  find: (tenantId, id, now) =>
    session.read(
      'members.find',
      [tenantId, id, now],
      (tables, tenantId, id, now) => membersOf(tables, tenantId, now).find((one) => one.id === id) ?? null,
    ),

  byEmail: (tenantId, email, now) =>
    session.read(
      'members.byEmail',
      [tenantId, email, now],
      (tables, tenantId, email, now) =>
        membersOf(tables, tenantId, now).find((one) => sameEmail(one.email, email)) ?? null,
    ),

  countInvited: (tenantId, now) =>
    session.read(
      'members.countInvited',
      [tenantId, now],
      (tables, tenantId, now) => validInvitations(tables, now).filter((one) => one.tenantId === tenantId).length,
    ),

  countOwners: (tenantId) =>
    session.read(
      'members.countOwners',
      [tenantId],
      (tables, tenantId) => tables.users.where((user) => user.tenantId === tenantId && user.role === 'owner').length,
    ),

  invitation: (id, now) =>
    session.read(
      'members.invitation',
      [id, now],
      (tables, id, now) => validInvitations(tables, now).find((one) => one.id === id) ?? null,
    ),

  invitationsFor: (email, now, limit) =>
    session.read('members.invitationsFor', [email, now, limit], (tables, email, now, limit) => {
      const offered = validInvitations(tables, now).flatMap((one) => {
        const tenant = tables.actors.get(actorKey({ kind: 'tenant', id: one.tenantId }));
        if (tenant === undefined || !sameEmail(one.email, email)) return [];
        return [{ ...one, tenantName: tenant.columns.name as string }];
      });
      return newestFirst(offered, (one) => one, limit).items;
    }),
});

export const memberStore = (session: Session): MemberStore => ({
  ...reads(session),

  invite: (invitation, idempotency) =>
    session.write('members.invite', [invitation, idempotency], (tables, invitation, idempotency) => {
      const row = rowOf(columns, invitation);
      const older = tables.invitations.first(
        ({ tenantId, email }) => tenantId === row.tenantId && sameEmail(email, row.email),
      );
      if (older === undefined && tables.invitations.has(row.id)) {
        refuse('23505', 'duplicate key value violates unique constraint "invitations_pkey"');
      }
      if (older !== undefined) tables.invitations.delete(older.id);
      tables.invitations.set(row.id, row);
      putIdempotency(tables, idempotency);
      references(tables.users.has(row.invitedBy), 'invitations_invited_by_fkey');
    }),

  updateInvitation: (id, role, invitedBy) =>
    session.write('members.offer', [id, role, invitedBy], (tables, id, role, invitedBy) => {
      const found = tables.invitations.get(id);
      if (found !== undefined) tables.invitations.set(id, { ...found, role, invitedBy });
    }),

  deleteInvitation: (id) => session.write('members.uninvite', [id], (tables, id) => void tables.invitations.delete(id)),

  accept: ({ id }, userId, now, idempotency) =>
    session.write('members.accept', [id, userId, now, idempotency], (tables, id, userId, now, idempotency) => {
      const found = validInvitations(tables, now).find((one) => one.id === id);
      const user = tables.users.get(userId);
      if (found === undefined || user === undefined || user.tenantId !== null) return false;
      tables.users.set(userId, { ...user, tenantId: found.tenantId, role: found.role });
      tables.invitations.delete(id);
      putIdempotency(tables, idempotency);
      return true;
    }),

  setRole: (tenantId, userId, role) =>
    session.write('members.setRole', [tenantId, userId, role], (tables, tenantId, userId, role) => {
      const user = tables.users.get(userId);
      if (user?.tenantId !== tenantId) return;
      if (role === 'none') refuse('23514', 'new row violates check constraint "users_check"');
      tables.users.set(userId, { ...user, role });
    }),

  remove: (tenantId, userId, at) =>
    session.write('members.remove', [tenantId, userId, at], (tables, tenantId, userId, at) => {
      const user = tables.users.get(userId);
      if (user?.tenantId !== tenantId) return;
      tables.users.set(userId, { ...user, tenantId: null, role: 'none' });
      const revoked = tables.apiKeys.where(
        (key) => key.userId === userId && key.tenantId === tenantId && key.revokedAt === null,
      );
      for (const { prefix } of revoked) endKey(tables, prefix, at);
    }),
});
