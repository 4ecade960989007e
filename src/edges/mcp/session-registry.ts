import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { EpochMs, Milliseconds, Uuid } from '../../domain/values.ts';
import type { Caller, Services } from '../../operations/operation.ts';
import { type GuardedConnection, guardConnections } from '../shared/live/connection-guard.ts';
import { NO_SUBSCRIPTION, type Subscription } from '../shared/live/subscription.ts';
import type { McpTransport } from './mcp-transport.ts';
import type { Subscriber, Subscriptions } from './subscriptions.ts';

export interface SessionLimits {
  /** Of one user; beyond it one ends that nobody reads, or else any: the one that was used least lately. */
  maxPerUser: number;
  /** Beyond it one ends, in the same way, of whoever has the most, while that is more than the newcomer has then. */
  maxTotal: number;
  /** Nobody reads it, and nothing was asked for so long: it ends. */
  idleTimeoutMs: Milliseconds;
  /** How often credentials are looked at: their end closes within a second. */
  checkIntervalMs: Milliseconds;
  keepAliveIntervalMs: Milliseconds;
}

export const defaultSessionLimits: SessionLimits = {
  maxPerUser: 32,
  maxTotal: 2_000,
  idleTimeoutMs: 30 * 60_000,
  checkIntervalMs: 250,
  keepAliveIntervalMs: 15_000,
};

/** What a client comes back to. What it asked for stands under handles; of a session only who it is and what it follows. */
export interface Session extends GuardedConnection {
  readonly id: string;
  /** Who may come back: whoever else does finds no such session. */
  readonly owner: string;
  readonly transport: McpTransport;
  readonly server: Server;
  readonly subscriber: Subscriber;
  /** With what they came last. */
  caller: Caller;
  usedAt: EpochMs;
}

export interface SessionRegistry extends SizeReporter {
  /** Whether this user can have one more. */
  hasCapacity(userId: Uuid): boolean;
  /** Null where there are too many in all. */
  open(parts: { owner: string; caller: Caller; wire: McpTransport & { sessionId: string } }): Session | null;
  find(id: string, owner: string): Session | null;
  end(session: Session): void;
  count(): number;
  all(): Iterable<Session>;
  close(): void;
}

/** `serverFor` makes what answers on a wire. `isIdle` says whether nobody reads and nothing is asked. */
export function makeSessionRegistry(
  services: Pick<Services, 'actors' | 'clock' | 'apiKeys' | 'log' | 'revocations' | 'users'>,
  parts: {
    subscriptions: Subscriptions;
    serverFor(wire: McpTransport, follower: Subscriber): Server;
    isIdle(wire: McpTransport): boolean;
    /** Of whoever comes without a session; its streams are kept open with the others. */
    passing: McpTransport;
    limits: SessionLimits;
  },
): SessionRegistry {
  const { clock, users } = services;
  const { subscriptions, limits } = parts;
  const sessions = new Map<string, Session>();
  const byUser = new Map<Uuid, Set<Session>>();

  function forget(session: Session): void {
    if (!sessions.delete(session.id)) return;
    subscriptions.removeSubscriber(session.subscriber);
    const userId = session.caller.principal.id;
    const theirs = byUser.get(userId);
    theirs?.delete(session);
    if (theirs?.size === 0) byUser.delete(userId);
  }

  function end(session: Session): void {
    forget(session);
    void session.transport.close();
  }

  const guests = guardConnections(services, () => sessions.values(), end);
  const rolesChanged = users.subscribe((id) => {
    for (const { server } of byUser.get(id) ?? []) server.sendToolListChanged().catch(() => {}); // nobody reads
  });

  let keptAlive = performance.now();
  const looking = setInterval(() => {
    guests.endExpired();
    const idleSince = clock.now() - limits.idleTimeoutMs;
    for (const session of sessions.values()) {
      if (session.usedAt <= idleSince && parts.isIdle(session.transport)) end(session);
    }
    if (performance.now() - keptAlive < limits.keepAliveIntervalMs) return;
    keptAlive = performance.now();
    parts.passing.keepAlive();
    for (const { transport } of sessions.values()) transport.keepAlive();
  }, limits.checkIntervalMs);
  looking.unref();

  /** Of whom one ends before this user can have one more; null where nobody's does, or none may. */
  function holderFor(userId: Uuid): Set<Session> | null {
    const theirs = byUser.get(userId);
    if (theirs !== undefined && theirs.size >= limits.maxPerUser) return theirs;
    if (sessions.size < limits.maxTotal) return null;
    let most: Set<Session> | null = null;
    for (const held of byUser.values()) if (held.size > (most?.size ?? (theirs?.size ?? 0) + 1)) most = held;
    return most;
  }

  /** Whoever opens more and more ends their own, and does not shut out who has few. */
  function makeRoom(userId: Uuid): void {
    const holder = holderFor(userId);
    if (holder === null) return;
    const unread = [...holder].filter(({ transport }) => parts.isIdle(transport));
    const [oldest] = (unread.length > 0 ? unread : [...holder]).sort((a, b) => a.usedAt - b.usedAt);
    if (oldest !== undefined) end(oldest);
  }

  return {
    hasCapacity: (userId) => sessions.size < limits.maxTotal || holderFor(userId) !== null,
    open({ owner, caller, wire }) {
      const userId = caller.principal.id;
      makeRoom(userId);
      if (sessions.size >= limits.maxTotal) return null;
      const follower: Subscriber = {
        tenantId: caller.tenantId,
        get isClosed() {
          return !sessions.has(wire.sessionId);
        },
        notify: (uris) => notifyUpdates(wire, uris),
      };
      const session: Session = {
        ...{ id: wire.sessionId, owner, caller, transport: wire, subscriber: follower },
        server: parts.serverFor(wire, follower),
        usedAt: clock.now(),
        get subscription(): Subscription {
          return { ...NO_SUBSCRIPTION, kinds: subscriptions.requiredAccess(follower) };
        },
      };
      sessions.set(session.id, session);
      const theirs = byUser.get(userId) ?? new Set<Session>();
      byUser.set(userId, theirs.add(session));
      wire.onclose = () => forget(session);
      wire.ondrain = () => subscriptions.flushSubscriber(follower);
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

const notifyUpdates = (wire: McpTransport, uris: readonly string[]): boolean =>
  uris.every((uri) => wire.trySend({ jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri } }));
