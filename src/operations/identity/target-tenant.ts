import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { atLeast, type Role } from '../../domain/roles.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import { notFound } from '../inputs.ts';
import type { Caller, Services } from '../operation.ts';

/** Input member of operations with `acrossTenants`. */
export const tenantIdInput = uuid
  .optional()
  .meta({ noun: 'tenant', description: 'For platform operators only: the tenant to act in' });

/**
 * The tenant that an operation acts in: the caller's own, which requires `role`, or for a platform operator the one
 * given by `tenant_id`.
 */
export async function targetTenant(
  { actors }: Pick<Services, 'actors'>,
  caller: Caller,
  { tenant_id: named }: { tenant_id?: Uuid | undefined },
  role: Role,
): Promise<Outcome<Uuid>> {
  if (named === undefined) {
    if (caller.tenantId === null)
      return refuse('TENANT_REQUIRED', 'tenant_id is required: you are not a member of a tenant.');
    if (!atLeast(caller.role, role)) return refuse('FORBIDDEN_ROLE', `This operation requires the role ${role}.`);
    return done(caller.tenantId);
  }
  if (!caller.platformAdmin) return refuse('FORBIDDEN', 'tenant_id is for platform operators only.');
  const tenant = await actors.read({ kind: 'tenant', id: named });
  return tenant === null ? notFound('tenant') : done(named);
}
