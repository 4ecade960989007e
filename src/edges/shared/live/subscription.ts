import type { Role } from '../../../domain/roles.ts';
import type { NeededScope } from '../../../domain/scopes.ts';
import type { Uuid } from '../../../domain/values.ts';

/** What hearing a kind of update takes: the same as its GET. */
export interface AccessRequirement {
  role: Role;
  scope: NeededScope;
}

/** What a client asked to hear. */
export interface Subscription {
  kinds: ReadonlyMap<string, AccessRequirement>;
  /** Null: all devices of the tenant. An id that names nothing of the tenant never matches. */
  devices: ReadonlySet<Uuid> | null;
  /** Begin with all current states. */
  snapshot: boolean;
  /** The tenant that a platform operator named; null: the caller's own. */
  tenantId: Uuid | null;
}

export const NO_SUBSCRIPTION: Subscription = { kinds: new Map(), devices: null, snapshot: false, tenantId: null };

export const isUuid = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);

/** The same text for clients that asked for the same, snapshot apart: they get the same bytes. */
export const broadcastGroupKey = ({ kinds, devices }: Subscription): string =>
  `${[...kinds.keys()].sort().join()} ${devices === null ? '*' : [...devices].sort().join()}`;
