import { z } from 'zod';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { atLeast, type Role } from '../../domain/roles.ts';
import type { Uuid } from '../../domain/values.ts';
import { notFound } from '../inputs.ts';
import type { Caller, Services } from '../operation.ts';

/** A member of operations that are `acrossTenants`. */
export const tenantIdInput = z
  .uuid()
  .toLowerCase()
  .optional()
  .meta({ noun: 'tenant', description: 'For platform operators alone: the tenant that is meant' });

/**
 * Whose things a caller asks for: their own tenant's, where they need the `role`, or, being a platform operator, those of
 * the tenant that they name.
 */
export async function targetTenant(
  { actors }: Pick<Services, 'actors'>,
  caller: Caller,
  { tenant_id: named }: { tenant_id?: Uuid | undefined },
  role: Role,
): Promise<Outcome<Uuid>> {
  if (named === undefined) {
    if (caller.tenantId === null) return refuse('TENANT_REQUIRED', 'Name a tenant: you belong to none.');
    if (!atLeast(caller.role, role)) return refuse('FORBIDDEN_ROLE', `This needs the role ${role}.`);
    return done(caller.tenantId);
  }
  if (!caller.platformAdmin) return refuse('FORBIDDEN', 'Only platform operators may name a tenant.');
  const tenant = await actors.read({ kind: 'tenant', id: named });
  return tenant === null ? notFound('tenant') : done(named);
}
