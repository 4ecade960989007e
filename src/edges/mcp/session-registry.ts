import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import type { EpochMs, Milliseconds, Uuid } from '../../domain/values.ts';
import type { Caller, Services } from '../../operations/operation.ts';
import { type ConnectionGuard, type GuardedConnection, guardConnections } from '../shared/live/connection-guard.ts';
import { LiveReach } from '../shared/live/live-reach.ts';
import { NO_SUBSCRIPTION, type Subscription } from '../shared/live/subscription.ts';
import type { McpTransport } from './mcp-transport.ts';
import type { Subscriber, Subscriptions } from './subscriptions.ts';

export interface SessionLimits {
  /** Per user. Beyond it the least recently used session is evicted, idle ones first. */
  maxPerUser: number;
  /** Per tenant, likewise. */
  maxPerTenant: number;
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
  maxPerTenant: 500,
  maxTotal: 2_000,
  idleTimeoutMs: 30 * 60_000,
  checkIntervalMs: 250,
  keepAliveIntervalMs: 15_000,
};

/**
 * A session of one client: its identity and its subscriptions. Plans and commands are independent of it, under their
 * ids.
 */
export interface McpSession extends GuardedConnection {
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

export type SessionTransport = McpTransport & { sessionId: string };

type SessionServices = Pick<
  Services,
  'actors' | 'clock' | 'apiKeys' | 'invalidations' | 'log' | 'revocations' | 'store' | 'users'
>;

export interface SessionRegistryParts {
  subscriptions: Subscriptions;
  makeServer(transport: McpTransport, subscriber: Subscriber): Server;
  /** True if the transport has neither an open event stream nor a pending request. */
  isIdle(transport: McpTransport): boolean;
  /** For requests without a session. The registry keeps its streams alive too. */
  statelessTransport: McpTransport;
  limits: SessionLimits;
}

/**
 * Session registry: opens, finds, evicts and ends sessions, checks their credentials, and keeps their streams alive.
 */
export class SessionRegistry implements SizeReporter {
  readonly #services: SessionServices;
  readonly #parts: SessionRegistryParts;
  readonly #sessions = new Map<string, McpSession>();
  readonly #byUser = new Map<Uuid, Set<McpSession>>();
  readonly #byTenant = new Map<Uuid, Set<McpSession>>();
  readonly #guard: ConnectionGuard;
  readonly #unsubscribe: () => void;
  readonly #checkTimer: NodeJS.Timeout;
  #keptAliveAt = performance.now();

  constructor(services: SessionServices, parts: SessionRegistryParts) {
    this.#services = services;
    this.#parts = parts;
    this.#guard = guardConnections(
      services,
      () => this.#sessions.values(),
      (session) => this.end(session),
    );
    this.#unsubscribe = services.users.subscribe((id) => {
      for (const { server } of this.#byUser.get(id) ?? []) server.sendToolListChanged().catch(() => {}); // no open stream
    });
    this.#checkTimer = setInterval(() => this.#check(), parts.limits.checkIntervalMs).unref();
  }

  /** True if this caller can open one more session. */
  hasCapacity(caller: Caller): boolean {
    return this.#sessions.size < this.#parts.limits.maxTotal || this.#evictionPoolFor(caller) !== null;
  }

  /** Null if there are too many sessions. */
  open({
    owner,
    caller,
    transport,
  }: {
    owner: string;
    caller: Caller;
    transport: SessionTransport;
  }): McpSession | null {
    this.#evictOne(caller);
    if (this.#sessions.size >= this.#parts.limits.maxTotal) return null;
    const session = this.#makeSession(owner, caller, transport);
    this.#sessions.set(session.id, session);
    addTo(this.#byUser, caller.principal.id, session);
    if (caller.tenantId !== null) addTo(this.#byTenant, caller.tenantId, session);
    transport.onclose = () => this.#forget(session);
    transport.ondrain = () => this.#parts.subscriptions.flushSubscriber(session.subscriber);
    return session;
  }

  find(id: string, owner: string): McpSession | null {
    const found = this.#sessions.get(id);
    return found?.owner === owner ? found : null;
  }

  count(): number {
    return this.#sessions.size;
  }

  sizes(): CollectionSizes {
    return {
      mcp_sessions: this.#sessions.size,
      mcp_session_users: this.#byUser.size,
      mcp_session_tenants: this.#byTenant.size,
    };
  }

  all(): Iterable<McpSession> {
    return [...this.#sessions.values()];
  }

  close(): void {
    clearInterval(this.#checkTimer);
    this.#guard.close();
    this.#unsubscribe();
  }

  end(session: McpSession): void {
    this.#forget(session);
    void session.transport.close();
  }

  /**
   * Ends the sessions of the tenants for which `matches` returns true: another node serves them. A user without a
   * tenant is served where a tenant with the user's id would be.
   */
  endTenants(matches: (tenantId: Uuid) => boolean): void {
    for (const session of [...this.#sessions.values()]) {
      const { tenantId, user } = session.caller;
      const servedBy = tenantId ?? user?.id;
      if (servedBy !== undefined && matches(servedBy)) this.end(session);
    }
  }

  #makeSession(owner: string, caller: Caller, transport: SessionTransport): McpSession {
    const { subscriptions, makeServer } = this.#parts;
    const sessions = this.#sessions;
    const subscriber: Subscriber = {
      tenantId: caller.tenantId,
      // Every caller of a session has the same key.
      reach: LiveReach.of(this.#services, caller, () => this.end(session)),
      get isClosed() {
        return !sessions.has(transport.sessionId);
      },
      get caller() {
        return session.caller;
      },
      notify: (uris) => notifyUpdates(transport, uris),
    };
    const session: McpSession = {
      ...{ id: transport.sessionId, owner, caller, transport, subscriber },
      server: makeServer(transport, subscriber),
      usedAt: this.#services.clock.now(),
      get subscription(): Subscription {
        return { ...NO_SUBSCRIPTION, kinds: subscriptions.requiredAccess(subscriber) };
      },
    };
    return session;
  }

  #forget(session: McpSession): void {
    if (!this.#sessions.delete(session.id)) return;
    this.#parts.subscriptions.removeSubscriber(session.subscriber);
    session.subscriber.reach?.close();
    const { tenantId } = session.subscriber;
    removeFrom(this.#byUser, session.caller.principal.id, session);
    if (tenantId !== null) removeFrom(this.#byTenant, tenantId, session);
  }

  #check(): void {
    this.#guard.endExpired();
    this.#endIdleSessions();
    this.#keepStreamsAlive();
  }

  #endIdleSessions(): void {
    const { limits, isIdle } = this.#parts;
    const idleSince = this.#services.clock.now() - limits.idleTimeoutMs;
    for (const session of this.#sessions.values()) {
      if (session.usedAt <= idleSince && isIdle(session.transport)) this.end(session);
    }
  }

  #keepStreamsAlive(): void {
    const { limits, statelessTransport } = this.#parts;
    if (performance.now() - this.#keptAliveAt < limits.keepAliveIntervalMs) return;
    this.#keptAliveAt = performance.now();
    statelessTransport.keepAlive();
    for (const { transport } of this.#sessions.values()) transport.keepAlive();
  }

  /** The sessions from which one has to be evicted first; null if none has to be, or none may be. */
  #evictionPoolFor({ principal, tenantId }: Caller): Set<McpSession> | null {
    const { maxPerUser, maxPerTenant, maxTotal } = this.#parts.limits;
    const own = this.#byUser.get(principal.id);
    if (own !== undefined && own.size >= maxPerUser) return own;
    const ofTenant = tenantId === null ? undefined : this.#byTenant.get(tenantId);
    if (ofTenant !== undefined && ofTenant.size >= maxPerTenant) return ofTenant;
    if (this.#sessions.size < maxTotal) return null;
    let largest: Set<McpSession> | null = null;
    for (const held of this.#byUser.values()) if (held.size > (largest?.size ?? (own?.size ?? 0) + 1)) largest = held;
    return largest;
  }

  /** A user with many sessions loses them first, so that one user cannot lock out the others. */
  #evictOne(caller: Caller): void {
    const pool = this.#evictionPoolFor(caller);
    if (pool === null) return;
    const idle = [...pool].filter(({ transport }) => this.#parts.isIdle(transport));
    const [oldest] = (idle.length > 0 ? idle : [...pool]).sort((a, b) => a.usedAt - b.usedAt);
    if (oldest !== undefined) this.end(oldest);
  }
}

function addTo(sets: Map<Uuid, Set<McpSession>>, key: Uuid, session: McpSession): void {
  sets.set(key, (sets.get(key) ?? new Set<McpSession>()).add(session));
}

function removeFrom(sets: Map<Uuid, Set<McpSession>>, key: Uuid, session: McpSession): void {
  const held = sets.get(key);
  held?.delete(session);
  if (held?.size === 0) sets.delete(key);
}

const notifyUpdates = (transport: McpTransport, uris: readonly string[]): boolean =>
  uris.every((uri) =>
    transport.trySend({ jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri } }),
  );
