import { type Refusal, refuse } from '../domain/refusals.ts';
import { atLeast, type Role } from '../domain/roles.ts';
import type { Principal, Uuid } from '../domain/values.ts';
import type { Services } from './operation.ts';

/** The refusal of a confirmation if the requester is no longer a member of the tenant, or has a role below `role`. */
export async function requesterRefusal(
  { users }: Pick<Services, 'users'>,
  tenantId: Uuid,
  { kind, id }: Principal,
  role: Role,
): Promise<{ ok: false; refusal: Refusal } | null> {
  if (kind !== 'user') return null;
  const user = await users.get(id);
  if (user?.tenantId === tenantId && atLeast(user.role, role)) return null;
  return refuse('CONFIRMATION_FAILED', `The user who requested it is no longer a member with the role ${role}.`);
}
