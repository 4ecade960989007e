import type { EpochMs, Uuid } from '../../domain/values.ts';

/** The signed part of a CONNECT's client identifier. */
export interface UsedSessionToken {
  deviceId: Uuid;
  timestamp: EpochMs;
  /** 12 random bytes, base64url. */
  nonce: string;
}

/** Session tokens that opened a session: one counts once, across restarts and takeovers too. */
export interface SessionTokenStore {
  /**
   * Marks tokens as used and answers those that were not used before, as `<device_id>.<timestamp>.<nonce>`. A token whose
   * answer was lost counts as used.
   */
  markUsed(tokens: readonly UsedSessionToken[]): Promise<ReadonlySet<string>>;
}
