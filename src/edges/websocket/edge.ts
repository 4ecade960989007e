import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { WebSocket, WebSocketServer } from 'ws';
import { referenceOf } from '../../domain/clock.ts';
import { type CollectionSizes, type SizeReporter, sumSizes } from '../../domain/collection-sizes.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { auditOperatorStream } from '../../operations/audit-recording.ts';
import { refusalOf } from '../../operations/faults.ts';
import { isTicket } from '../../operations/identity/websocket-tickets.ts';
import type { Caller, Services } from '../../operations/operation.ts';
import type { Authenticator } from '../shared/authenticator.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { checkAccess, checkCurrentAccess, checkExpiry } from '../shared/live/authorization.ts';
import { closeFrameOf } from '../shared/live/close-codes.ts';
import {
  type ConnectionGuard,
  guardConnections,
  TENANT_MOVED,
  tenantOfConnection,
} from '../shared/live/connection-guard.ts';
import { ConnectionQuota } from '../shared/live/connection-quota.ts';
import { LiveReach } from '../shared/live/live-reach.ts';
import { NO_SUBSCRIPTION, type Subscription } from '../shared/live/subscription.ts';
import { makeWebSocketAuthenticator, type WebSocketAuthenticator } from '../shared/live/websocket-authenticator.ts';
import type { RequestRateLimiter } from '../shared/rate-limiter.ts';
import { ensureRequestId, makeWebSocketServer, refuseUpgrade } from '../shared/upgrade.ts';
import { BroadcastGroups } from './broadcast-groups.ts';
import type { UpdateStream } from './update-stream.ts';
import { WebSocketConnection } from './websocket-connection.ts';
import { defaultWebSocketLimits, type WebSocketLimits } from './websocket-limits.ts';

export interface WebSocketParts {
  services: Pick<
    Services,
    | 'actors'
    | 'audit'
    | 'clock'
    | 'invalidations'
    | 'log'
    | 'newId'
    | 'revocations'
    | 'users'
    | 'apiKeys'
    | 'agentTokens'
    | 'sealedCache'
    | 'store'
  >;
  streams: readonly UpdateStream[];
  identity: Pick<Authenticator, 'authenticate' | 'recognises'>;
  rateLimiter: Pick<RequestRateLimiter, 'chargeAnonymous' | 'signInRefusal' | 'recordFailedSignIn'>;
  addressOf: AddressOf;
  limits?: Partial<WebSocketLimits>;
  /** Shared with the other edges with WebSockets. */
  quota?: ConnectionQuota;
}

interface Handshake {
  activeStream: ActiveStream;
  query: URLSearchParams;
  requestId: Uuid;
  address: string;
  client: string | undefined;
  /** Whether it was counted against the rate of its address. */
  charged: boolean;
}

const UNKNOWN_PATH: Refusal = { code: 'NOT_FOUND', detail: 'There is nothing at this path.' };

/** A stream and its clients. */
interface ActiveStream {
  stream: UpdateStream;
  groups: BroadcastGroups;
  /** Ends the stream's subscription; null while the stream has no clients. */
  unsubscribe: (() => void) | null;
}

/** The server-to-client update streams `/ws/state` and `/ws/actors` (contract §6). */
export class WebSocketEdge implements SizeReporter {
  readonly #parts: WebSocketParts;
  readonly #limits: WebSocketLimits;
  readonly #server: WebSocketServer;
  readonly #activeStreams: ReadonlyMap<string, ActiveStream>;
  readonly #connections = new Map<WebSocketConnection, ActiveStream>();
  readonly #signIn: WebSocketAuthenticator;
  readonly #quota: ConnectionQuota;
  readonly #guard: ConnectionGuard;
  readonly #checkTimer: NodeJS.Timeout;
  #pingAt: number;
  #onAllClosed: (() => void) | null = null;

  constructor(parts: WebSocketParts) {
    const { services, identity, rateLimiter, streams } = parts;
    const limits = { ...defaultWebSocketLimits, ...parts.limits };
    this.#parts = parts;
    this.#limits = limits;
    this.#server = makeWebSocketServer({ maxPayload: limits.maxPayload }, services.newId);
    this.#activeStreams = new Map(
      streams.map((stream) => [stream.path, { stream, groups: new BroadcastGroups(), unsubscribe: null }]),
    );
    this.#quota = parts.quota ?? new ConnectionQuota();
    this.#signIn = makeWebSocketAuthenticator(services, identity, rateLimiter);
    this.#guard = guardConnections(
      services,
      () => this.#connections.keys(),
      (connection, refusal) => this.#end(connection, refusal),
    );
    this.#pingAt = performance.now() + limits.pingIntervalMs;
    this.#checkTimer = setInterval(() => this.#check(), limits.checkIntervalMs).unref();
  }

  /**
   * For the HTTP server's `upgrade` event; an unknown path gets 404. The query is removed from the request's URL at
   * once, because it contains the credential.
   */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { path, query } = split(request.url ?? '');
    request.url = path;
    const activeStream = this.#activeStreams.get(path);
    if (activeStream === undefined) {
      refuseUpgrade(request, socket, UNKNOWN_PATH, { newId: this.#parts.services.newId });
      return;
    }
    const requestId = ensureRequestId(request, this.#parts.services.newId);
    const address = this.#parts.addressOf(request);
    const charged = !this.#hasCredential(query);
    const refusal = charged ? this.#parts.rateLimiter.chargeAnonymous(address).refusal : null;
    if (refusal !== null) {
      refuseUpgrade(request, socket, refusal, { newId: this.#parts.services.newId });
      return;
    }
    this.#server.handleUpgrade(request, socket, head, (ws) => {
      this.#parts.services.log.debug({ request_id: requestId }, 'websocket opened');
      const client = request.headers['user-agent'];
      void this.#serve(ws, socket, { activeStream, query, requestId, address, client, charged });
    });
  }

  /** Open connections, those that conflate, the updates pending for them, and bytes buffered in all sockets. */
  counts(): { connections: number; conflating: number; pendingUpdates: number; buffered: number } {
    const counts = { connections: this.#connections.size, conflating: 0, pendingUpdates: 0, buffered: 0 };
    for (const { groups } of this.#activeStreams.values()) {
      const stats = groups.conflatingStats();
      counts.conflating += stats.connections;
      counts.pendingUpdates += stats.pendingUpdates;
    }
    for (const connection of this.#connections.keys()) counts.buffered += connection.buffered;
    return counts;
  }

  sizes(): CollectionSizes {
    const parts = [...this.#activeStreams.values()].flatMap(({ stream, groups }) => [stream, groups]);
    return { websocket_connections: this.#connections.size, ...this.#quota.sizes(), ...sumSizes(parts) };
  }

  /** Closes all connections; resolves when they are closed. */
  async close(): Promise<void> {
    clearInterval(this.#checkTimer);
    this.#guard.close();
    for (const activeStream of this.#activeStreams.values()) activeStream.unsubscribe?.();
    const allClosed = new Promise<void>((resolve) => {
      this.#onAllClosed = resolve;
    });
    for (const connection of this.#connections.keys()) goAway(connection);
    if (this.#connections.size > 0) await allClosed;
  }

  /** Closes the connections of the tenants for which `matches` returns true: another node serves them. */
  endTenants(matches: (tenantId: Uuid) => boolean): void {
    for (const connection of this.#connections.keys()) {
      const tenantId = tenantOfConnection(connection);
      if (tenantId !== null && matches(tenantId)) connection.close(1001, TENANT_MOVED);
    }
  }

  /** Whether the `token` has the form of a credential; an empty or made-up text is none. */
  #hasCredential(query: URLSearchParams): boolean {
    const token = query.get('token') ?? '';
    return isTicket(token) || this.#parts.identity.recognises(token);
  }

  /** Activates a client, or returns why not. Subscribes before the snapshot is read, so that no update is missed. */
  async #admit(connection: WebSocketConnection, activeStream: ActiveStream, caller: Caller): Promise<Refusal | null> {
    const { subscription } = connection;
    const { stream, groups } = activeStream;
    const denied = checkAccess(caller, subscription) ?? checkExpiry(caller, referenceOf(this.#parts.services.clock));
    const tenantId = subscription.tenantId ?? caller.tenantId;
    if (denied !== null || tenantId === null) return denied;
    connection.caller = caller;
    connection.reach = LiveReach.of(this.#parts.services, caller, () => connection.close(1013, UPDATES_LOST));
    activeStream.unsubscribe ??= stream.subscribe((update) => groups.publish(update));
    groups.add(connection, tenantId);
    const refused = await checkCurrentAccess(this.#parts.services, caller, subscription);
    if (refused !== null) return refused;
    if (tenantId !== caller.tenantId) await auditOperatorStream(this.#parts.services, caller, tenantId, stream.path);
    const snapshot = await stream.snapshot(tenantId, await reachedSubscription(subscription, connection.reach));
    connection.activate(snapshot, performance.now());
    groups.scheduleFlush(connection);
    return null;
  }

  /** Removes a client; ends the stream's subscription with the last one. */
  #leave(connection: WebSocketConnection, activeStream: ActiveStream): void {
    activeStream.groups.remove(connection);
    connection.reach?.close();
    if (!activeStream.groups.isEmpty) return;
    activeStream.unsubscribe?.();
    activeStream.unsubscribe = null;
  }

  async #serve(ws: WebSocket, socket: Duplex, handshake: Handshake): Promise<void> {
    const { activeStream, query, charged, ...attempt } = handshake;
    const parsed = activeStream.stream.parseQuery(query);
    const connection: WebSocketConnection = new WebSocketConnection({
      ws,
      socket,
      limits: this.#limits,
      subscription: parsed.ok ? parsed.value : NO_SUBSCRIPTION,
      onDrain: () => activeStream.groups.scheduleFlush(connection),
    });
    this.#connections.set(connection, activeStream);
    ws.on('close', () => {
      this.#connections.delete(connection);
      this.#leave(connection, activeStream);
      if (this.#connections.size === 0) this.#onAllClosed?.();
    });
    // The library answers protocol errors with a close frame.
    ws.on('error', () => {});
    if (this.#onAllClosed !== null) return goAway(connection);
    try {
      const caller = await this.#signIn(query.get('token'), { via: 'websocket', ...attempt });
      // An invalid credential counts like none. Only now: a valid one is accepted however many its address has sent.
      if (!caller.ok && !charged) this.#parts.rateLimiter.chargeAnonymous(attempt.address);
      // The client may have disconnected during authentication: its `close` event has fired already.
      if (!this.#connections.has(connection)) return;
      if (!caller.ok) return this.#end(connection, caller.refusal);
      const entered = this.#quota.enter(caller.value);
      if (!entered.ok) return this.#end(connection, entered.refusal);
      ws.once('close', entered.value);
      // An invalid query is reported to authenticated clients only.
      const refusal =
        parsed.ok || caller.value.user === null
          ? await this.#admit(connection, activeStream, caller.value)
          : parsed.refusal;
      if (refusal !== null) this.#end(connection, refusal);
    } catch (thrown) {
      this.#end(
        connection,
        refusalOf(thrown, this.#parts.services.log, {
          request_id: attempt.requestId,
          operation: activeStream.stream.path,
        }),
      );
    }
  }

  #end(connection: WebSocketConnection, refusal: Refusal): void {
    const activeStream = this.#connections.get(connection);
    if (activeStream !== undefined) this.#leave(connection, activeStream);
    const { code, reason } = closeFrameOf(refusal);
    connection.close(code, reason);
  }

  #check(): void {
    const now = performance.now();
    const pinging = now >= this.#pingAt;
    if (pinging) this.#pingAt = now + this.#limits.pingIntervalMs;
    this.#guard.endExpired();
    for (const [connection, { groups }] of this.#connections)
      if (connection.checkHealth(now, pinging)) groups.scheduleFlush(connection);
  }
}

/** The subscription with the devices that the client's key reaches now, for its snapshot. */
async function reachedSubscription(subscription: Subscription, reach: LiveReach | null): Promise<Subscription> {
  if (reach === null || !subscription.snapshot) return subscription;
  const reached = await reach.deviceIds();
  const { devices } = subscription;
  return {
    ...subscription,
    devices: devices === null ? reached : new Set([...devices].filter((id) => reached.has(id))),
  };
}

const UPDATES_LOST = 'updates were lost: connect again';

const goAway = (connection: WebSocketConnection): void => connection.close(1001, 'the service is shutting down');

function split(url: string): { path: string; query: URLSearchParams } {
  const at = url.indexOf('?');
  return at === -1
    ? { path: url, query: new URLSearchParams() }
    : { path: url.slice(0, at), query: new URLSearchParams(url.slice(at + 1)) };
}
