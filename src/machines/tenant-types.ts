import type { AppliedChange } from '../domain/change-request.ts';
import { DEFAULT_POLICY, type EarlierRules, type SafetyPolicy } from '../domain/policy.ts';
import type { EpochMs, Principal, Uuid } from '../domain/values.ts';

export interface TenantContext {
  fixed: TenantFixed;
  live: Record<string, never>;
}

export interface TenantFixed {
  id: Uuid;
  name: string;
  slug: string;
  tier: string;
  policy: SafetyPolicy;
  /** Stricter rules that still apply to what waited when they ended, oldest first; missing if there are none. */
  earlierRules?: readonly EarlierRules[];
  createdAt: EpochMs;
  /** Notice of the operator for its members while it is suspended; missing without one. */
  suspensionNotice?: string;
}

interface Base {
  at: EpochMs;
  by?: Principal;
}

/** The context before the first event. A field that is missing here does not compile. */
export const initialTenant: TenantContext = {
  fixed: { id: '', name: '', slug: '', tier: '', policy: DEFAULT_POLICY, createdAt: 0 },
  live: {},
};

export type TenantEvent =
  | (Base & { type: 'register'; tenant: Pick<TenantFixed, 'id' | 'name' | 'slug' | 'tier'>; ownerId: Uuid })
  /** `reason` is for the journal, `notice` for the members. */
  | (Base & { type: 'suspend'; reason?: string; notice?: string })
  | (Base & { type: 'resume'; reason?: string })
  | (Base & { type: 'tier.set'; tier: string })
  /**
   * Absent members are unchanged. A looser policy is refused with `CONFLICT` unless `loosened` is the current one:
   * the policy that it was confirmed under, by the change request `change`.
   */
  | (Base & { type: 'policy.set'; policy: Partial<SafetyPolicy>; loosened?: SafetyPolicy; change?: AppliedChange });
