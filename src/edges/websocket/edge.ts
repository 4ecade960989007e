import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { referenceOf } from '../../domain/clock.ts';
import { type SizeReporter, sumSizes } from '../../domain/collection-sizes.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import type { Caller, Services } from '../../operations/operation.ts';
import type { AddressOf } from '../shared/client-address.ts';
import type { Identity } from '../shared/identity.ts';
import { checkAccess, checkCurrentAccess, checkExpiry } from '../shared/live/authorization.ts';
import { closeFrameOf } from '../shared/live/close-codes.ts';
import { guardConnections } from '../shared/live/connection-guard.ts';
import { NO_SUBSCRIPTION } from '../shared/live/subscription.ts';
import { makeWebSocketAuthenticator } from '../shared/live/websocket-authenticator.ts';
import type { RateLimiter } from '../shared/rate-limiter.ts';
import { ensureRequestId, makeWebSocketServer, refuseUpgrade } from '../shared/upgrade.ts';
import { BroadcastGroups } from './broadcast-groups.ts';
import { Connection } from './connection.ts';
import type { UpdateStream } from './update-stream.ts';
import { defaultWebSocketLimits, type WebSocketLimits } from './websocket-limits.ts';

export interface WebSocketParts {
  services: Pick<
    Services,
    'actors' | 'clock' | 'log' | 'newId' | 'revocations' | 'users' | 'apiKeys' | 'agentTokens' | 'sealedCache'
  >;
  streams: readonly UpdateStream[];
  identity: Pick<Identity, 'authenticate'>;
  rateLimiter: Pick<RateLimiter, 'signInRefusal' | 'recordFailedSignIn'>;
  addressOf: AddressOf;
  limits?: Partial<WebSocketLimits>;
}

/** The server-to-client update streams `/ws/state` and `/ws/actors` (contract §6). */
export interface WebSocketEdge extends SizeReporter {
  /**
   * For the HTTP server's `upgrade` event; an unknown path gets 404. The query is removed from the request's URL at
   * once, because it contains the credential.
   */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Open connections, those that conflate, the updates pending for them, and bytes buffered in all sockets. */
  counts(): { connections: number; conflating: number; pendingUpdates: number; buffered: number };
  /** Closes all connections; resolves when they are closed. */
  close(): Promise<void>;
}

interface Handshake {
  activeStream: ActiveStream;
  query: URLSearchParams;
  requestId: Uuid;
  address: string;
}

const UNKNOWN_PATH: Refusal = { code: 'NOT_FOUND', detail: 'There is nothing at this path.' };

/** A stream and its clients. */
interface ActiveStream {
  stream: UpdateStream;
  groups: BroadcastGroups;
  /** Ends the stream's subscription; null while the stream has no clients. */
  unsubscribe: (() => void) | null;
}

export function makeWebSockets({
  services,
  identity,
  rateLimiter,
  addressOf,
  streams,
  limits: given,
}: WebSocketParts): WebSocketEdge {
  const { clock, log, newId } = services;
  const limits = { ...defaultWebSocketLimits, ...given };
  const server = makeWebSocketServer({ maxPayload: limits.maxPayload }, newId);
  const activeStreams = new Map<string, ActiveStream>(
    streams.map((stream) => [stream.path, { stream, groups: new BroadcastGroups(), unsubscribe: null }]),
  );
  const connections = new Map<Connection, ActiveStream>();
  const signIn = makeWebSocketAuthenticator(services, identity, rateLimiter);
  let onAllClosed: (() => void) | null = null;

  /** Activates a client, or returns why not. Subscribes before the snapshot is read, so that no update is missed. */
  async function admit(connection: Connection, activeStream: ActiveStream, caller: Caller): Promise<Refusal | null> {
    const { subscription } = connection;
    const { stream, groups } = activeStream;
    const denied = checkAccess(caller, subscription) ?? checkExpiry(caller, referenceOf(clock));
    const tenantId = subscription.tenantId ?? caller.tenantId;
    if (denied !== null || tenantId === null) return denied;
    connection.caller = caller;
    activeStream.unsubscribe ??= stream.subscribe((update) => groups.publish(update));
    groups.add(connection, tenantId);
    const refused = await checkCurrentAccess(services, caller, subscription);
    if (refused !== null) return refused;
    const snapshot = await stream.snapshot(tenantId, subscription);
    connection.activate(snapshot, performance.now());
    groups.scheduleFlush(connection);
    return null;
  }

  /** Removes a client; ends the stream's subscription with the last one. */
  function leave(connection: Connection, activeStream: ActiveStream): void {
    activeStream.groups.remove(connection);
    if (!activeStream.groups.isEmpty) return;
    activeStream.unsubscribe?.();
    activeStream.unsubscribe = null;
  }

  async function serve(
    ws: WebSocket,
    socket: Duplex,
    { activeStream, query, requestId, address }: Handshake,
  ): Promise<void> {
    const parsed = activeStream.stream.parseQuery(query);
    const connection: Connection = new Connection({
      ws,
      socket,
      limits,
      subscription: parsed.ok ? parsed.value : NO_SUBSCRIPTION,
      onDrain: () => activeStream.groups.scheduleFlush(connection),
    });
    connections.set(connection, activeStream);
    ws.on('close', () => {
      connections.delete(connection);
      leave(connection, activeStream);
      if (connections.size === 0) onAllClosed?.();
    });
    // The library answers protocol errors with a close frame.
    ws.on('error', () => {});
    if (onAllClosed !== null) return goAway(connection);
    try {
      const caller = await signIn(query.get('token'), { via: 'websocket', requestId, address });
      // The client may have disconnected during authentication: its `close` event has fired already.
      if (!connections.has(connection)) return;
      if (!caller.ok) return end(connection, caller.refusal);
      // An invalid query is reported to authenticated clients only.
      const refusal =
        parsed.ok || caller.value.user === null ? await admit(connection, activeStream, caller.value) : parsed.refusal;
      if (refusal !== null) end(connection, refusal);
    } catch (thrown) {
      end(connection, refusalOf(thrown, log, { request_id: requestId, operation: activeStream.stream.path }));
    }
  }

  function end(connection: Connection, refusal: Refusal): void {
    const activeStream = connections.get(connection);
    if (activeStream !== undefined) leave(connection, activeStream);
    const { code, reason } = closeFrameOf(refusal);
    connection.close(code, reason);
  }

  const guard = guardConnections(services, () => connections.keys(), end);

  let pingAt = performance.now() + limits.pingIntervalMs;
  const checkTimer = setInterval(() => {
    const now = performance.now();
    const pinging = now >= pingAt;
    if (pinging) pingAt = now + limits.pingIntervalMs;
    guard.endExpired();
    for (const [connection, { groups }] of connections)
      if (connection.checkHealth(now, pinging)) groups.scheduleFlush(connection);
  }, limits.checkIntervalMs);
  checkTimer.unref();

  return {
    upgrade(request, socket, head) {
      const { path, query } = split(request.url ?? '');
      request.url = path;
      const activeStream = activeStreams.get(path);
      if (activeStream === undefined) return refuseUpgrade(request, socket, UNKNOWN_PATH, { newId });
      const requestId = ensureRequestId(request, newId);
      const address = addressOf(request);
      server.handleUpgrade(request, socket, head, (ws) => {
        log.debug({ request_id: requestId }, 'websocket opened');
        void serve(ws, socket, { activeStream, query, requestId, address });
      });
    },
    counts() {
      const counts = { connections: connections.size, conflating: 0, pendingUpdates: 0, buffered: 0 };
      for (const { groups } of activeStreams.values()) {
        const stats = groups.conflatingStats();
        counts.conflating += stats.connections;
        counts.pendingUpdates += stats.pendingUpdates;
      }
      for (const connection of connections.keys()) counts.buffered += connection.buffered;
      return counts;
    },
    sizes() {
      const parts = [...activeStreams.values()].flatMap(({ stream, groups }) => [stream, groups]);
      return { websocket_connections: connections.size, ...sumSizes(parts) };
    },
    async close() {
      clearInterval(checkTimer);
      guard.close();
      for (const activeStream of activeStreams.values()) activeStream.unsubscribe?.();
      const allClosed = new Promise<void>((resolve) => {
        onAllClosed = resolve;
      });
      for (const connection of connections.keys()) goAway(connection);
      if (connections.size > 0) await allClosed;
    },
  };
}

const goAway = (connection: Connection): void => connection.close(1001, 'the service is shutting down');

function split(url: string): { path: string; query: URLSearchParams } {
  const at = url.indexOf('?');
  return at === -1
    ? { path: url, query: new URLSearchParams() }
    : { path: url.slice(0, at), query: new URLSearchParams(url.slice(at + 1)) };
}
