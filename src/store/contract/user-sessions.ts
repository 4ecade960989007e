import type { Position } from '../../domain/cursor.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { Page } from './page.ts';

/** `browser`: a cookie session. `command_line`: the token of an approved command line. `token`: any other token. */
export type UserSessionKind = 'browser' | 'command_line' | 'token';

/** A sign-in of a user: a credential that a person uses, other than an API key. */
export interface UserSession {
  id: Uuid;
  /** The id that its revocation names (`TokenRef.id`); unique. */
  tokenId: string;
  userId: Uuid;
  kind: UserSessionKind;
  /** The program, as it calls itself; null if unknown. */
  client: string | null;
  /** The address that it was first used from; null if unknown. */
  address: string | null;
  /** Token ids of the credentials that it was derived from, nearest first. */
  ancestors: readonly string[];
  /** Null if the token does not contain it. */
  signedInAt: EpochMs | null;
  createdAt: EpochMs;
  lastUsedAt: EpochMs;
  expiresAt: EpochMs;
}

export interface SurplusSession {
  tokenId: string;
  expiresAt: EpochMs;
  valid: boolean;
}

/** A session is valid until it expires, is revoked, one of its ancestors is revoked, or its user is signed out. */
export interface UserSessionStore {
  /** Inserts the sessions; of those that exist, a later use is stored. At most one for each token id. */
  record(sessions: readonly UserSession[]): Promise<void>;
  /** Null unless the session is valid. */
  find(id: Uuid, now: EpochMs): Promise<UserSession | null>;
  /** The user's valid sessions, newest first. */
  list(userId: Uuid, now: EpochMs, limit: number, after?: Position): Promise<Page<UserSession>>;
  /** Deletes the rows of sessions. Ends nothing: neither the sessions nor what was derived from them. */
  forget(tokenIds: readonly string[]): Promise<void>;
  /**
   * The rows of these users beyond `max` for each: first those that are not valid, then those that no valid session was
   * derived from, then the others, and of each the oldest first.
   */
  surplus(userIds: readonly Uuid[], now: EpochMs, max: number): Promise<SurplusSession[]>;
  /**
   * Ends all sign-ins of the user before `at`, in milliseconds, for good. Returns the user's recorded sessions that signed
   * in at `since` or later.
   */
  signOut(userId: Uuid, at: EpochMs, since: EpochMs): Promise<Pick<UserSession, 'tokenId' | 'expiresAt'>[]>;
}
