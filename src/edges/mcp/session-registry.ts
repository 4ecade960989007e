import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { EpochMs, Milliseconds, Uuid } from '../../domain/values.ts';
import type { Caller, Services } from '../../operations/operation.ts';
import { type GuardedConnection, guardConnections } from '../shared/live/connection-guard.ts';
import { NO_SUBSCRIPTION, type Subscription } from '../shared/live/subscription.ts';
import type { McpTransport } from './mcp-transport.ts';
import type { Subscriber, Subscriptions } from './subscriptions.ts';

export interface SessionLimits {
  /** Per user. Beyond it the least recently used session is evicted, idle ones first. */
  maxPerUser: number;
  /**
   * Beyond it a session of the user with the most sessions is evicted, if that user has more than the new one would
   * have.
   */
  maxTotal: number;
  /** A session without an open stream and without requests ends after this time. */
  idleTimeoutMs: Milliseconds;
  /** Interval of the credential check: a session has to close within one second after its credential ends. */
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

/**
 * A session of one client: its identity and its subscriptions. Plans and commands are independent of it, under their
 * ids.
 */
export interface Session extends GuardedConnection {
  readonly id: string;
  /** Requests of another owner do not find the session. */
  readonly owner: string;
  readonly transport: McpTransport;
  readonly server: Server;
  readonly subscriber: Subscriber;
  /** The caller of the last request. */
  caller: Caller;
  usedAt: EpochMs;
}

export interface SessionRegistry extends SizeReporter {
  /** True if this user can open one more session. */
  hasCapacity(userId: Uuid): boolean;
  /** Null if there are too many sessions. */
  open(parts: { owner: string; caller: Caller; transport: McpTransport & { sessionId: string } }): Session | null;
  find(id: string, owner: string): Session | null;
  end(session: Session): void;
  count(): number;
  all(): Iterable<Session>;
  close(): void;
}

/**
 * Session registry: opens, finds, evicts and ends sessions, checks their credentials, and keeps their streams alive.
 */
export function makeSessionRegistry(
  services: Pick<Services, 'actors' | 'clock' | 'apiKeys' | 'log' | 'revocations' | 'users'>,
  parts: {
    subscriptions: Subscriptions;
    makeServer(transport: McpTransport, subscriber: Subscriber): Server;
    /** True if the transport has neither an open event stream nor a pending request. */
    isIdle(transport: McpTransport): boolean;
    /** For requests without a session. The registry keeps its streams alive too. */
    statelessTransport: McpTransport;
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
    const own = byUser.get(userId);
    own?.delete(session);
    if (own?.size === 0) byUser.delete(userId);
  }

  function end(session: Session): void {
    forget(session);
    void session.transport.close();
  }

  const guard = guardConnections(services, () => sessions.values(), end);
  const unsubscribe = users.subscribe((id) => {
    for (const { server } of byUser.get(id) ?? []) server.sendToolListChanged().catch(() => {}); // no open stream
  });

  let keptAliveAt = performance.now();
  const checkTimer = setInterval(() => {
    guard.endExpired();
    const idleSince = clock.now() - limits.idleTimeoutMs;
    for (const session of sessions.values()) {
      if (session.usedAt <= idleSince && parts.isIdle(session.transport)) end(session);
    }
    if (performance.now() - keptAliveAt < limits.keepAliveIntervalMs) return;
    keptAliveAt = performance.now();
    parts.statelessTransport.keepAlive();
    for (const { transport } of sessions.values()) transport.keepAlive();
  }, limits.checkIntervalMs);
  checkTimer.unref();

  /** The user's sessions from which one has to be evicted first; null if none has to be, or none may be. */
  function evictionPoolFor(userId: Uuid): Set<Session> | null {
    const own = byUser.get(userId);
    if (own !== undefined && own.size >= limits.maxPerUser) return own;
    if (sessions.size < limits.maxTotal) return null;
    let largest: Set<Session> | null = null;
    for (const held of byUser.values()) if (held.size > (largest?.size ?? (own?.size ?? 0) + 1)) largest = held;
    return largest;
  }

  /** A user with many sessions loses them first, so that one user cannot lock out the others. */
  function evictOne(userId: Uuid): void {
    const pool = evictionPoolFor(userId);
    if (pool === null) return;
    const idle = [...pool].filter(({ transport }) => parts.isIdle(transport));
    const [oldest] = (idle.length > 0 ? idle : [...pool]).sort((a, b) => a.usedAt - b.usedAt);
    if (oldest !== undefined) end(oldest);
  }

  return {
    hasCapacity: (userId) => sessions.size < limits.maxTotal || evictionPoolFor(userId) !== null,
    open({ owner, caller, transport }) {
      const userId = caller.principal.id;
      evictOne(userId);
      if (sessions.size >= limits.maxTotal) return null;
      const subscriber: Subscriber = {
        tenantId: caller.tenantId,
        get isClosed() {
          return !sessions.has(transport.sessionId);
        },
        notify: (uris) => notifyUpdates(transport, uris),
      };
      const session: Session = {
        ...{ id: transport.sessionId, owner, caller, transport, subscriber },
        server: parts.makeServer(transport, subscriber),
        usedAt: clock.now(),
        get subscription(): Subscription {
          return { ...NO_SUBSCRIPTION, kinds: subscriptions.requiredAccess(subscriber) };
        },
      };
      sessions.set(session.id, session);
      const own = byUser.get(userId) ?? new Set<Session>();
      byUser.set(userId, own.add(session));
      transport.onclose = () => forget(session);
      transport.ondrain = () => subscriptions.flushSubscriber(subscriber);
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
      clearInterval(checkTimer);
      guard.close();
      unsubscribe();
    },
  };
}

const notifyUpdates = (transport: McpTransport, uris: readonly string[]): boolean =>
  uris.every((uri) =>
    transport.trySend({ jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri } }),
  );
