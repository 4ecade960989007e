import type { Role } from '../../domain/roles.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';

export interface User {
  id: Uuid;
  iss: string;
  sub: string;
  email: string | null;
  emailVerified: boolean;
  tenantId: Uuid | null;
  role: Role;
  createdAt: EpochMs;
  /** Sign-ins before this time have ended; null if the user was never signed out everywhere. */
  notBefore: EpochMs | null;
}

/** A token, client or API key that was presented at `/mcp`, by a digest that names its user. */
export interface AgentToken {
  digest: string;
  expiresAt: EpochMs;
  /** Null if an older build stored it. */
  userId: Uuid | null;
}

export interface IdentityStore {
  /**
   * The user with (`iss`, `sub`); created with `id` at the first sign-in. A changed email is stored if it is verified.
   */
  upsertUser(user: Pick<User, 'id' | 'iss' | 'sub' | 'email' | 'emailVerified' | 'createdAt'>): Promise<User>;
  user(id: Uuid): Promise<User | null>;
  userBySubject(iss: string, sub: string): Promise<User | null>;
  slugTaken(slug: string): Promise<boolean>;
  /** Stores the `jti` of a token that was logged out, until a day after the token expires. */
  revokeToken(jti: string, expiresAt: EpochMs): Promise<void>;
  /** Tokens that expire after `now`; 0 returns all that are stored. */
  revokedTokens(now: EpochMs): Promise<{ jti: string; expiresAt: EpochMs }[]>;
  isTokenRevoked(jti: string): Promise<boolean>;
  /** Stores that a token was presented at `/mcp`, until a day after the token expires. */
  markAgentToken(token: AgentToken): Promise<void>;
  agentTokens(now: EpochMs): Promise<AgentToken[]>;
  isAgentToken(digest: string): Promise<boolean>;
}
