import { randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { cleanClientName } from '../domain/client-name.ts';
import { type Clock, referenceOf } from '../domain/clock.ts';
import type { CollectionSizes, SizeReporter } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import { entriesAtMost } from '../domain/lru-bound.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { UserSession, UserSessionKind } from '../store/contract/user-sessions.ts';
import { DataRefused, type Store, type User } from '../store/contract.ts';
import { SESSION_TOKEN_PREFIX } from './cookie-sessions.ts';
import { LEEWAY_S, type Revocations, type TokenRef } from './tokens.ts';
import type { UserCache } from './user-cache.ts';

const FLUSH_MS = 5_000;
/** Resolution of `last_used_at`. */
const USE_RESOLUTION_MS = 60_000;
const MAX_TOKENS = 20_000;
/** Sessions of a user: with another one the oldest ends. */
const MAX_SESSIONS = 100;
/** Users whose number of sessions is checked at a flush. */
const MAX_CHECKED_USERS = 50;

/** Where a session is used from. */
export interface SessionOrigin {
  /** The program, as it calls itself: a `User-Agent`. */
  client?: string | null | undefined;
  address?: string | null | undefined;
}

/** Whether the token's sign-in was before its user was signed out everywhere; true if its time is unknown. */
export const isSignedOut = ({ notBefore }: Pick<User, 'notBefore'>, token: TokenRef | null): boolean =>
  notBefore !== null && token !== null && (token.signedInAt ?? Number.NEGATIVE_INFINITY) < notBefore;

/** The sign-ins of users: records them, and ends one of them or all of a user. */
export class UserSessions implements SizeReporter {
  readonly #store: Pick<Store, 'userSessions'>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #users: Pick<UserCache, 'invalidate'>;
  readonly #revocations: Pick<Revocations, 'add'>;
  readonly #flushTimer: NodeJS.Timeout;
  /** Time of the last recorded use by token id. */
  readonly #usedAt = new LRUCache<string, EpochMs>(entriesAtMost(MAX_TOKENS));
  #uses = new Map<string, UserSession>();
  /** Users with sessions that this process sees for the first time, until their number is checked. */
  readonly #grown = new Set<Uuid>();
  #flushing: Promise<void> = Promise.resolve();
  #ending: Promise<void> = Promise.resolve();
  #discarded = false;

  constructor(
    store: Pick<Store, 'userSessions'>,
    parts: { clock: Clock; log: Log; users: Pick<UserCache, 'invalidate'>; revocations: Pick<Revocations, 'add'> },
  ) {
    this.#store = store;
    this.#clock = parts.clock;
    this.#log = parts.log;
    this.#users = parts.users;
    this.#revocations = parts.revocations;
    this.#flushTimer = setInterval(() => void this.flush(), FLUSH_MS).unref();
  }

  /** Records a new session. Resolves when it is stored. */
  open(userId: Uuid, token: TokenRef, origin: SessionOrigin): Promise<void> {
    const now = referenceOf(this.#clock);
    this.#usedAt.set(token.id, now);
    this.#grown.add(userId);
    return this.#store.userSessions.record([sessionOf(userId, token, origin, now)]);
  }

  /** Buffered in memory and flushed every 5 s; a crash loses the last few seconds. */
  recordUse(userId: Uuid, token: TokenRef, origin: SessionOrigin): void {
    const now = referenceOf(this.#clock);
    const before = this.#usedAt.get(token.id);
    if ((before !== undefined && now - before < USE_RESOLUTION_MS) || this.#uses.size >= MAX_TOKENS) return;
    this.#usedAt.set(token.id, now);
    if (before === undefined) this.#grown.add(userId);
    this.#uses.set(token.id, sessionOf(userId, token, origin, now));
  }

  /** Removes a session that its browser has replaced from the list. Does not end what was derived from it. */
  forget({ id }: Pick<TokenRef, 'id'>): Promise<void> {
    this.#uses.delete(id);
    return this.#store.userSessions.forget([id]);
  }

  /** Ends the session or token and everything that was derived from it, on all nodes. */
  end({ id, expiresAt }: Pick<TokenRef, 'id' | 'expiresAt'>): Promise<void> {
    return this.#revocations.add(id, expiresAt);
  }

  /** Ends all sign-ins of the user up to now, also those that are not recorded, on all nodes. */
  async endAll(userId: Uuid): Promise<void> {
    await this.#writeUses();
    const now = referenceOf(this.#clock);
    let recent: Awaited<ReturnType<Store['userSessions']['signOut']>>;
    try {
      recent = await this.#store.userSessions.signOut(userId, now, now - LEEWAY_S * 1000);
    } finally {
      // Even if the commit failed: its outcome may be unknown, so the next use reads the store.
      this.#users.invalidate(userId);
    }
    // With an issuer whose clock is ahead, another node may take the sign-in for a later one.
    for (const { tokenId, expiresAt } of recent) await this.#revocations.add(tokenId, expiresAt);
  }

  sizes(): CollectionSizes {
    return {
      user_session_uses: this.#uses.size,
      user_sessions_seen: this.#usedAt.size,
      user_sessions_to_count: this.#grown.size,
    };
  }

  /** Flushes the buffered uses, unless `discardPending` was called. */
  close(): Promise<void> {
    clearInterval(this.#flushTimer);
    return this.#writeUses();
  }

  /** Stops flushing; buffered uses are lost. */
  discardPending(): void {
    this.#discarded = true;
    clearInterval(this.#flushTimer);
  }

  /** Resolves when the buffered uses are stored and the sessions beyond the limit have ended, or that has failed. */
  async flush(): Promise<void> {
    await this.#writeUses();
    this.#ending = this.#ending.then(() => this.#endSurplus());
    await this.#ending;
  }

  /** Resolves when the buffered uses are stored, or that has failed. */
  #writeUses(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#write());
    return this.#flushing;
  }

  async #write(): Promise<void> {
    const flushed = this.#uses;
    if (flushed.size === 0 || this.#discarded) return;
    this.#uses = new Map();
    try {
      await this.#record([...flushed.values()]);
    } catch (error) {
      for (const [id, use] of flushed) if (!this.#uses.has(id)) this.#uses.set(id, use);
      this.#log.warn({ err: error }, 'session use flush failed; retrying at the next flush');
    }
  }

  /**
   * Ends the oldest sessions of users with more than `MAX_SESSIONS`, and deletes their rows. A session that others were
   * derived from would end these too, so it ends only if there is no other.
   */
  async #endSurplus(): Promise<void> {
    if (this.#grown.size === 0 || this.#discarded) return;
    const userIds = [...this.#grown].slice(0, MAX_CHECKED_USERS);
    for (const userId of userIds) this.#grown.delete(userId);
    try {
      const surplus = await this.#store.userSessions.surplus(userIds, referenceOf(this.#clock), MAX_SESSIONS);
      const ended = surplus.filter(({ valid }) => valid);
      for (const { tokenId, expiresAt } of ended) await this.#revocations.add(tokenId, expiresAt);
      // Afterwards: without its row nothing would end the session if the revocation failed.
      await this.#store.userSessions.forget(surplus.map(({ tokenId }) => tokenId));
      if (ended.length > 0) this.#log.info({ sessions: ended.length }, 'oldest sessions of users with too many ended');
    } catch (error) {
      for (const userId of userIds) this.#grown.add(userId);
      this.#log.warn({ err: error }, 'number of sessions not checked; retrying at the next flush');
    }
  }

  /** Drops sessions whose data the store refuses, so that they do not keep the others out. */
  async #record(sessions: readonly UserSession[]): Promise<void> {
    try {
      await this.#store.userSessions.record(sessions);
    } catch (error) {
      if (!(error instanceof DataRefused)) throw error;
      const [session, ...others] = sessions;
      if (session !== undefined && others.length === 0) {
        this.#log.error({ err: error, user_id: session.userId }, 'session refused by the store; not recorded');
      } else for (const one of sessions) await this.#record([one]);
    }
  }
}

function sessionOf(userId: Uuid, token: TokenRef, { client, address }: SessionOrigin, now: EpochMs): UserSession {
  return {
    id: randomUUID(),
    tokenId: token.id,
    userId,
    kind: kindOf(token),
    client: cleanClientName(client),
    address: address ?? null,
    ancestors: token.ancestors ?? [],
    signedInAt: token.signedInAt ?? null,
    ...{ createdAt: now, lastUsedAt: now, expiresAt: token.expiresAt },
  };
}

function kindOf({ id, parent }: TokenRef): UserSessionKind {
  if (id.startsWith(SESSION_TOKEN_PREFIX)) return 'browser';
  return parent === undefined ? 'token' : 'command_line';
}
