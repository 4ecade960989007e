import { Quarantined } from '../actors/contract.ts';
import { isPerson } from '../domain/policy.ts';
import { refuse } from '../domain/refusals.ts';
import { atLeast } from '../domain/roles.ts';
import { allowsScope } from '../domain/scopes.ts';
import { isActiveSnapshot, isSuspendedSnapshot } from '../machines/tenant-record.ts';
import type { Caller, Operation, Services } from './operation.ts';

type Refused = ReturnType<typeof refuse>;

/**
 * Checks authentication, tenant, role and scope (contract §2): everything that depends on the caller alone. An edge
 * calls it first where it has to read the input itself.
 */
export function callerRefusal(operation: Operation, caller: Caller): Refused | null {
  const { role, scope, alsoScope, platformOnly, personOnly, restrictedKeys } = operation;
  if (role === null) return null;
  if (caller.user === null) return refuse('UNAUTHENTICATED', 'A valid bearer token or API key is required.');
  if (platformOnly && !caller.platformAdmin)
    return refuse('FORBIDDEN', 'This operation is for platform operators only.');
  if (!actsAcrossTenants(operation, caller)) {
    if (role !== 'none' && caller.tenantId === null) {
      return refuse('TENANT_REQUIRED', 'Register a tenant or accept an invitation first.');
    }
    if (!atLeast(caller.role, role)) return refuse('FORBIDDEN_ROLE', `This operation requires the role ${role}.`);
  }
  if (scope !== null && !allowsScope(caller.scopes, scope)) {
    return refuse('INSUFFICIENT_SCOPE', `This operation requires the scope ${scope}.`);
  }
  if (alsoScope !== undefined && !allowsScope(caller.scopes, alsoScope)) {
    return refuse('INSUFFICIENT_SCOPE', `This operation also requires the scope ${alsoScope}.`);
  }
  if (personOnly && !isPerson(caller.principal)) {
    return refuse(
      'FORBIDDEN',
      'This operation requires a person: API keys, tokens of programs and tokens presented at /mcp are not allowed.',
    );
  }
  if (caller.restriction !== undefined && restrictedKeys === undefined) {
    return refuse(
      'KEY_RESTRICTED',
      'This operation is not for keys that are restricted to places, devices or actions.',
    );
  }
  return null;
}

/** Whether a platform operator runs an operation that is allowed across tenants. */
const actsAcrossTenants = ({ acrossTenants }: Operation, { platformAdmin }: Caller): boolean =>
  acrossTenants === true && platformAdmin;

/** Refuses a caller whose tenant is suspended, unless the operation is allowed then. Throws if the tenant's state is unknown. */
export async function tenantRefusal(
  services: Pick<Services, 'actors'>,
  operation: Operation,
  caller: Caller,
): Promise<Refused | null> {
  if (operation.role === null || operation.platformOnly || operation.inSuspension || caller.tenantId === null)
    return null;
  if (actsAcrossTenants(operation, caller)) return null;
  const tenant = await services.actors.read({ kind: 'tenant', id: caller.tenantId });
  if (tenant === null || isActiveSnapshot(tenant.snapshot)) return null;
  if (isSuspendedSnapshot(tenant.snapshot)) return refuse('TENANT_SUSPENDED', 'The tenant is suspended.');
  // Neither suspension nor policy can be read from this state.
  throw new Quarantined(`tenant ${caller.tenantId} is in an unknown state`);
}
