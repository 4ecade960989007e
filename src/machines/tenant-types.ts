import type { SafetyPolicy } from '../domain/policy.ts';
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
  createdAt: EpochMs;
}

interface Base {
  at: EpochMs;
  by?: Principal;
}

export type TenantEvent =
  | (Base & { type: 'register'; tenant: Pick<TenantFixed, 'id' | 'name' | 'slug' | 'tier'>; ownerId: Uuid })
  | (Base & { type: 'suspend'; reason?: string })
  | (Base & { type: 'resume'; reason?: string })
  | (Base & { type: 'tier.set'; tier: string })
  /** Absent members are unchanged. */
  | (Base & { type: 'policy.set'; policy: Partial<SafetyPolicy> });
