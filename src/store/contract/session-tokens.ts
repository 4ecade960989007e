import type { EpochMs, Uuid } from '../../domain/values.ts';

/** Signed part of a CONNECT's client identifier. */
export interface UsedSessionToken {
  deviceId: Uuid;
  timestamp: EpochMs;
  /** 12 random bytes, base64url. */
  nonce: string;
}

/** Session tokens that opened a session. A token is valid once, across restarts and takeovers. */
export interface SessionTokenStore {
  /**
   * Marks tokens as used and returns those that were unused, as `<device_id>.<timestamp>.<nonce>`. If the answer of the
   * database is lost, the token counts as used.
   */
  markUsed(tokens: readonly UsedSessionToken[]): Promise<ReadonlySet<string>>;
}
