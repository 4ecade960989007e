import type { Role } from '../../../domain/roles.ts';
import type { NeededScope } from '../../../domain/scopes.ts';
import type { Uuid } from '../../../domain/values.ts';

/** Requirements of a kind of update: those of the corresponding GET. */
export interface AccessRequirement {
  role: Role;
  scope: NeededScope;
  /** Whether restricted keys may receive it, for the devices that they reach. */
  forRestrictedKeys: boolean;
}

/** The updates that a client requested. */
export interface Subscription {
  kinds: ReadonlyMap<string, AccessRequirement>;
  /** Null means all devices of the tenant. An id of another tenant, or an unknown one, never matches. */
  devices: ReadonlySet<Uuid> | null;
  /** Send all current states first. */
  snapshot: boolean;
  /** The tenant that a platform operator chose; null means the caller's tenant. */
  tenantId: Uuid | null;
}

export const NO_SUBSCRIPTION: Subscription = { kinds: new Map(), devices: null, snapshot: false, tenantId: null };

/** Equal for subscriptions that get the same bytes; the snapshot is not part of it. */
export const broadcastGroupKey = ({ kinds, devices }: Subscription): string =>
  `${[...kinds.keys()].sort().join()} ${devices === null ? '*' : [...devices].sort().join()}`;
