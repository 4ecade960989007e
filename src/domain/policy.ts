/** The tenant's safety policy (contract §5). */
export interface SafetyPolicy {
  confirm_by: 'requester' | 'another_principal' | 'person';
  /** Seconds a confirmation can be given in: 60–86,400. */
  confirm_ttl_s: number;
}

export const DEFAULT_POLICY: SafetyPolicy = { confirm_by: 'requester', confirm_ttl_s: 300 };
