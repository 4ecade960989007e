import { type Role, roles } from '../../domain/roles.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import { DROPPED_ANSWER } from '../contract/idempotency.ts';
import { type Invitation, keySubject, type Member, type MemberStore } from '../contract/members.ts';
import type { Database } from './database.ts';
import { idempotencyCte, idempotencyParameter, idempotentScope } from './idempotency.ts';
import { descendingStart, type ListStatement, readPage } from './keyset-pagination.ts';

interface MemberRow {
  id: Uuid;
  email: string | null;
  role: Role;
  status: Member['status'];
  created_at: EpochMs;
}

interface InvitationRow {
  id: Uuid;
  tenant_id: Uuid;
  email: string;
  role: Role;
  invited_by: Uuid;
  created_at: EpochMs;
  expires_at: EpochMs;
}

const memberOf = ({ created_at: createdAt, ...rest }: MemberRow): Member => ({ ...rest, createdAt });

const invitationOf = (row: InvitationRow): Invitation => ({
  id: row.id,
  tenantId: row.tenant_id,
  email: row.email,
  role: row.role,
  invitedBy: row.invited_by,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
});

const rank = (role: string): string => `array_position(array[${roles.map((name) => `'${name}'`).join(', ')}], ${role})`;
const folded = (email: string): string => `lower(${email} collate "C")`;

/** Valid invitations: not expired, and the inviter may still grant the role. `$n` is the time. */
const validInvitations = (
  n: number,
): string => `invitations i join users g on g.id = i.invited_by and g.tenant_id = i.tenant_id
    and ${rank('g.role')} >= ${rank(`'admin'`)} and ${rank('g.role')} >= ${rank('i.role')} and i.expires_at > $${n}`;

/** `$1` is the tenant, `$2` the time. */
const members = `(
  select id, email, role, 'active' as status, created_at from users where tenant_id = $1
  union all select i.id, i.email, i.role, 'invited', i.created_at from ${validInvitations(2)} where i.tenant_id = $1) as m`;

const offerColumns = 'i.id, i.tenant_id, i.email, i.role, i.invited_by, i.created_at, i.expires_at';

export const memberStore = (database: Database): MemberStore => ({
  async list(tenantId, now, limit, after) {
    const statement: ListStatement = {
      name: 'members',
      scope: { tenantId },
      text: `select * from ${members} where (created_at, id) < ($3, $4) order by created_at desc, id desc limit $5`,
      values: (after, rows) => [tenantId, now, ...descendingStart(after), rows],
    };
    const position = ({ createdAt, id }: Member) => ({ createdAt, id });
    return readPage(database, statement, { after, limit, of: memberOf, position });
  },

  async find(tenantId, id, now) {
    const [row] = await database.read<MemberRow>({
      name: 'member',
      scope: { tenantId },
      text: `select * from ${members} where id = $3`,
      values: [tenantId, now, id],
    });
    return row ? memberOf(row) : null;
  },

  async byEmail(tenantId, email, now) {
    const [row] = await database.read<MemberRow>({
      name: 'member_by_email',
      scope: { tenantId },
      text: `select * from ${members} where ${folded('email')} = ${folded('$3')} limit 1`,
      values: [tenantId, now, email],
    });
    return row ? memberOf(row) : null;
  },

  async countInvited(tenantId, now) {
    const [row] = await database.read<{ invited: number }>({
      name: 'members_invited',
      scope: { tenantId },
      text: `select count(*) as invited from ${validInvitations(2)} where i.tenant_id = $1`,
      values: [tenantId, now],
    });
    return row?.invited ?? 0;
  },

  async countOwners(tenantId) {
    const [row] = await database.read<{ owners: number }>({
      name: 'members_owners',
      scope: { tenantId },
      text: `select count(*) as owners from users where tenant_id = $1 and role = 'owner'`,
      values: [tenantId],
    });
    return row?.owners ?? 0;
  },

  async invite(invitation, idempotency) {
    const { id, tenantId, email, role, invitedBy, createdAt, expiresAt } = invitation;
    await database.write({
      name: 'member_invite',
      scope: idempotentScope(tenantId, idempotency),
      text: `with made as (
          insert into invitations (id, tenant_id, email, role, invited_by, created_at, expires_at)
          values ($1, $2, $3, $4, $5, $6, $7)
          on conflict (tenant_id, ${folded('email')}) do update set id = excluded.id, email = excluded.email,
            role = excluded.role, invited_by = excluded.invited_by, created_at = excluded.created_at,
            expires_at = excluded.expires_at
          returning id),
        ${idempotencyCte(8, 'made')}
        select id from made`,
      values: [id, tenantId, email, role, invitedBy, createdAt, expiresAt, idempotencyParameter(idempotency)],
    });
  },

  async updateInvitation(id, role, invitedBy) {
    await database.write({
      name: 'member_offer',
      text: 'update invitations set role = $2, invited_by = $3 where id = $1',
      values: [id, role, invitedBy],
    });
  },

  async deleteInvitation(id) {
    await database.write({
      name: 'member_uninvite',
      text: 'delete from invitations where id = $1',
      values: [id],
    });
  },

  async invitation(id, now) {
    const [row] = await database.read<InvitationRow>({
      name: 'invitation',
      text: `select ${offerColumns} from ${validInvitations(2)} where i.id = $1`,
      values: [id, now],
    });
    return row ? invitationOf(row) : null;
  },

  async invitationsFor(email, now, limit) {
    const rows = await database.read<InvitationRow & { tenant_name: string }>({
      name: 'invitations_for',
      text: `select ${offerColumns}, t.name as tenant_name from ${validInvitations(2)} join tenants t on t.id = i.tenant_id
        where ${folded('i.email')} = ${folded('$1')} order by i.created_at desc, i.id desc limit $3`,
      values: [email, now, limit],
    });
    return rows.map((row) => ({ ...invitationOf(row), tenantName: row.tenant_name }));
  },

  async accept({ id }, userId, now, idempotency) {
    const rows = await database.write({
      name: 'invitation_accept',
      // Locks the row first: of two concurrent acceptances the later one finds it deleted.
      text: `with offered as materialized (select ${offerColumns} from ${validInvitations(3)} where i.id = $1 for update of i),
        bound as (
          update users u set tenant_id = o.tenant_id, role = o.role from offered o
          where u.id = $2 and u.tenant_id is null returning u.id),
        gone as (delete from invitations where id = $1 and exists (select from bound)), ${idempotencyCte(4, 'bound')}
        select id from bound`,
      values: [id, userId, now, idempotencyParameter(idempotency)],
    });
    return rows.length > 0;
  },

  async setRole(tenantId, userId, role) {
    await database.write({
      name: 'member_role',
      scope: { tenantId },
      text: 'update users set role = $3 where id = $2 and tenant_id = $1',
      values: [tenantId, userId, role],
    });
  },

  async remove(tenantId, userId, at) {
    await database.write({
      name: 'member_remove',
      text: `with gone as (
          update users set tenant_id = null, role = 'none' where id = $2 and tenant_id = $1 returning id),
        dead as (
          update api_keys set revoked_at = $3
          where user_id in (select id from gone) and tenant_id = $1 and revoked_at is null returning prefix),
        dropped as (update idempotency set answer = '${DROPPED_ANSWER}'
          where subject in (select '${keySubject('')}' || prefix from dead))
        select id from gone`,
      values: [tenantId, userId, at],
    });
  },
});
