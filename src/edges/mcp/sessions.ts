import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { EpochMs, Milliseconds, Uuid } from '../../domain/values.ts';
import type { Caller, Services } from '../../operations/operation.ts';
import { type GuardedConnection, guardConnections } from '../shared/live/connection-guard.ts';
import { NO_SUBSCRIPTION, type Subscription } from '../shared/live/subscription.ts';
import type { Follower, Subscriptions } from './subscriptions.ts';
import type { Wire } from './wire.ts';

export interface SessionLimits {
  /** Of one user; beyond it one ends that nobody reads, or else any: the one that was used least lately. */
  perUser: number;
  /** Beyond it one ends, in the same way, of whoever has the most, while that is more than the newcomer has then. */
  inAll: number;
  /** Nobody reads it, and nothing was asked for so long: it ends. */
  idleMs: Milliseconds;
  /** How often credentials are looked at: their end closes within a second. */
  lookMs: Milliseconds;
  keepAliveMs: Milliseconds;
}

export const defaultLimits: SessionLimits = {
  perUser: 32,
  inAll: 2_000,
  idleMs: 30 * 60_000,
  lookMs: 250,
  keepAliveMs: 15_000,
};

/** What a client comes back to. What it asked for stands under handles; of a session only who it is and what it follows. */
export interface Session extends GuardedConnection {
  readonly id: string;
  /** Who may come back: whoever else does finds no such session. */
  readonly owner: string;
  readonly wire: Wire;
  readonly server: Server;
  readonly follower: Follower;
  /** With what they came last. */
  caller: Caller;
  usedAt: EpochMs;
}

export interface Sessions extends SizeReporter {
  /** Whether this user can have one more. */
  hasRoom(userId: Uuid): boolean;
  /** Null where there are too many in all. */
  open(parts: { owner: string; caller: Caller; wire: Wire & { sessionId: string } }): Session | null;
  find(id: string, owner: string): Session | null;
  end(session: Session): void;
  count(): number;
  all(): Iterable<Session>;
  close(): void;
}

/** `serverFor` makes what answers on a wire. `isIdle` says whether nobody reads and nothing is asked. */
export function keepSessions(
  services: Pick<Services, 'actors' | 'clock' | 'keys' | 'log' | 'revocations' | 'users'>,
  parts: {
    subscriptions: Subscriptions;
    serverFor(wire: Wire, follower: Follower): Server;
    isIdle(wire: Wire): boolean;
    /** Of whoever comes without a session; its streams are kept open with the others. */
    passing: Wire;
    limits: SessionLimits;
  },
): Sessions {
  const { clock, users } = services;
  const { subscriptions, limits } = parts;
  const sessions = new Map<string, Session>();
  const byUser = new Map<Uuid, Set<Session>>();

  function forget(session: Session): void {
    if (!sessions.delete(session.id)) return;
    subscriptions.leave(session.follower);
    const userId = session.caller.principal.id;
    const theirs = byUser.get(userId);
    theirs?.delete(session);
    if (theirs?.size === 0) byUser.delete(userId);
  }

  function end(session: Session): void {
    forget(session);
    void session.wire.close();
  }

  const guests = guardConnections(services, () => sessions.values(), end);
  const rolesChanged = users.onChange((id) => {
    for (const { server } of byUser.get(id) ?? []) server.sendToolListChanged().catch(() => {}); // nobody reads
  });

  let keptAlive = performance.now();
  const looking = setInterval(() => {
    guests.endExpired();
    const idleSince = clock.now() - limits.idleMs;
    for (const session of sessions.values()) {
      if (session.usedAt <= idleSince && parts.isIdle(session.wire)) end(session);
    }
    if (performance.now() - keptAlive < limits.keepAliveMs) return;
    keptAlive = performance.now();
    parts.passing.keepAlive();
    for (const { wire } of sessions.values()) wire.keepAlive();
  }, limits.lookMs);
  looking.unref();

  /** Of whom one ends before this user can have one more; null where nobody's does, or none may. */
  function holderFor(userId: Uuid): Set<Session> | null {
    const theirs = byUser.get(userId);
    if (theirs !== undefined && theirs.size >= limits.perUser) return theirs;
    if (sessions.size < limits.inAll) return null;
    let most: Set<Session> | null = null;
    for (const held of byUser.values()) if (held.size > (most?.size ?? (theirs?.size ?? 0) + 1)) most = held;
    return most;
  }

  /** Whoever opens more and more ends their own, and does not shut out who has few. */
  function makeRoom(userId: Uuid): void {
    const holder = holderFor(userId);
    if (holder === null) return;
    const unread = [...holder].filter(({ wire }) => parts.isIdle(wire));
    const [oldest] = (unread.length > 0 ? unread : [...holder]).sort((a, b) => a.usedAt - b.usedAt);
    if (oldest !== undefined) end(oldest);
  }

  return {
    hasRoom: (userId) => sessions.size < limits.inAll || holderFor(userId) !== null,
    open({ owner, caller, wire }) {
      const userId = caller.principal.id;
      makeRoom(userId);
      if (sessions.size >= limits.inAll) return null;
      const follower: Follower = {
        tenantId: caller.tenantId,
        get gone() {
          return !sessions.has(wire.sessionId);
        },
        tell: (uris) => tellUpdates(wire, uris),
      };
      const session: Session = {
        ...{ id: wire.sessionId, owner, caller, wire, follower },
        server: parts.serverFor(wire, follower),
        usedAt: clock.now(),
        get subscription(): Subscription {
          return { ...NO_SUBSCRIPTION, kinds: subscriptions.needs(follower) };
        },
      };
      sessions.set(session.id, session);
      const theirs = byUser.get(userId) ?? new Set<Session>();
      byUser.set(userId, theirs.add(session));
      wire.onclose = () => forget(session);
      wire.ondrain = () => subscriptions.catchUp(follower);
      return session;
    },
    find(id, owner) {
      const found = sessions.get(id);
      return found?.owner === owner ? found : null;
    },
    end,
    count: () => sessions.size,
    sizes: () => ({ mcp_sessions: sessions.size, mcp_session_users: byUser.size }),
    all: () => [...sessions.values()],
    close() {
      clearInterval(looking);
      guests.close();
      rolesChanged();
    },
  };
}

const tellUpdates = (wire: Wire, uris: readonly string[]): boolean =>
  uris.every((uri) => wire.tell({ jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri } }));
