import type { Principal } from './values.ts';

export const confirmers = ['requester', 'another_principal', 'person'] as const;

/** In seconds (contract §5). */
export const MIN_CONFIRM_TTL_S = 60;
export const MAX_CONFIRM_TTL_S = 86_400;

/** The tenant's safety policy (contract §5). */
export interface SafetyPolicy {
  confirm_by: (typeof confirmers)[number];
  /** Seconds within which a confirmation is accepted: 60–86,400. */
  confirm_ttl_s: number;
}

export const DEFAULT_POLICY: SafetyPolicy = { confirm_by: 'requester', confirm_ttl_s: 300 };

/** True for a cookie session or a user's token on any edge except `/mcp`; never for an API key (contract §5). */
export const isPerson = ({ kind, key, via, person }: Principal): boolean =>
  kind === 'user' && person === true && key === undefined && via !== 'mcp';
