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

/** A session is valid until it expires, is revoked, one of its ancestors is revoked, or its user is signed out. */
export interface UserSessionStore {
  /** Inserts the sessions; of those that exist, a later use is stored. At most one for each token id. */
  record(sessions: readonly UserSession[]): Promise<void>;
  /** Null unless the session is valid. */
  find(id: Uuid, now: EpochMs): Promise<UserSession | null>;
  /** The user's valid sessions, newest first. */
  list(userId: Uuid, now: EpochMs, limit: number, after?: Position): Promise<Page<UserSession>>;
  /** Deletes the row of a session that its browser has replaced. What was derived from the session stays valid. */
  forget(tokenId: string): Promise<void>;
  /**
   * Ends all sign-ins of the user before `at`, in milliseconds, for good. Returns the user's recorded sessions that signed
   * in at `since` or later.
   */
  signOut(userId: Uuid, at: EpochMs, since: EpochMs): Promise<Pick<UserSession, 'tokenId' | 'expiresAt'>[]>;
}
