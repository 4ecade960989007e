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

/** The WebSockets that only tell: `/ws/state` and `/ws/actors` (contract §6). */
export interface WebSocketEdge extends SizeReporter {
  /**
   * For the HTTP server's `upgrade`; another path is 404. The request's URL loses its query at once: it holds the
   * credential.
   */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Connections; of those the slow or new ones, updates that wait for them, and bytes that wait in all sockets. */
  counts(): { connections: number; apart: number; waiting: number; buffered: number };
  /** Says goodbye to everybody; resolves when they are gone. */
  close(): Promise<void>;
}

interface Handshake {
  activeStream: ActiveStream;
  query: URLSearchParams;
  requestId: Uuid;
  address: string;
}

const UNKNOWN_PATH: Refusal = { code: 'NOT_FOUND', detail: 'There is nothing at this path.' };

/** A stream with those who hear it. */
interface ActiveStream {
  stream: UpdateStream;
  groups: BroadcastGroups;
  /** Ends the listening; null while nobody is there. */
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
  const stages = new Map<string, ActiveStream>(
    streams.map((stream) => [stream.path, { stream, groups: new BroadcastGroups(), unsubscribe: null }]),
  );
  const connections = new Map<Connection, ActiveStream>();
  const signIn = makeWebSocketAuthenticator(services, identity, rateLimiter);
  let closing: (() => void) | null = null;

  /** Lets a client in, or says why not. Nothing is missed between its snapshot and what follows. */
  async function admit(connection: Connection, stage: ActiveStream, caller: Caller): Promise<Refusal | null> {
    const { subscription } = connection;
    const { stream, groups } = stage;
    const barred = checkAccess(caller, subscription) ?? checkExpiry(caller, referenceOf(clock));
    const tenantId = subscription.tenantId ?? caller.tenantId;
    if (barred !== null || tenantId === null) return barred;
    connection.caller = caller;
    stage.unsubscribe ??= stream.subscribe((update) => groups.publish(update));
    groups.add(connection, tenantId);
    const refused = await checkCurrentAccess(services, caller, subscription);
    if (refused !== null) return refused;
    const snapshot = await stream.snapshot(tenantId, subscription);
    connection.activate(snapshot, performance.now());
    groups.scheduleFlush(connection);
    return null;
  }

  /** Nothing is listened for while nobody hears it. */
  function leave(connection: Connection, stage: ActiveStream): void {
    stage.groups.remove(connection);
    if (!stage.groups.isEmpty) return;
    stage.unsubscribe?.();
    stage.unsubscribe = null;
  }

  async function serve(
    ws: WebSocket,
    socket: Duplex,
    { activeStream, query, requestId, address }: Handshake,
  ): Promise<void> {
    const interest = activeStream.stream.parseQuery(query);
    const connection: Connection = new Connection({
      ws,
      socket,
      limits,
      interest: interest.ok ? interest.value : NO_SUBSCRIPTION,
      drained: () => activeStream.groups.scheduleFlush(connection),
    });
    connections.set(connection, activeStream);
    ws.on('close', () => {
      connections.delete(connection);
      leave(connection, activeStream);
      if (connections.size === 0) closing?.();
    });
    // What a client sends wrongly is answered with a close frame by the library.
    ws.on('error', () => {});
    if (closing !== null) return goAway(connection);
    try {
      const caller = await signIn(query.get('token'), { via: 'websocket', requestId, address });
      // Who left meanwhile is not let in: nobody would see them out.
      if (!connections.has(connection)) return;
      if (!caller.ok) return end(connection, caller.refusal);
      // What is wrong with the query is told to whoever signed in: of which tenant it speaks is not known.
      const refusal =
        interest.ok || caller.value.user === null
          ? await admit(connection, activeStream, caller.value)
          : interest.refusal;
      if (refusal !== null) end(connection, refusal);
    } catch (thrown) {
      end(connection, refusalOf(thrown, log, { request_id: requestId, operation: activeStream.stream.path }));
    }
  }

  function end(connection: Connection, refusal: Refusal): void {
    const stage = connections.get(connection);
    if (stage !== undefined) leave(connection, stage);
    const { code, reason } = closeFrameOf(refusal);
    connection.close(code, reason);
  }

  const guests = guardConnections(services, () => connections.keys(), end);

  let pingAt = performance.now() + limits.pingIntervalMs;
  const looking = setInterval(() => {
    const now = performance.now();
    const pinging = now >= pingAt;
    if (pinging) pingAt = now + limits.pingIntervalMs;
    guests.endExpired();
    for (const [connection, { groups }] of connections)
      if (connection.checkHealth(now, pinging)) groups.scheduleFlush(connection);
  }, limits.checkIntervalMs);
  looking.unref();

  return {
    upgrade(request, socket, head) {
      const { path, query } = split(request.url ?? '');
      request.url = path;
      const stage = stages.get(path);
      if (stage === undefined) return refuseUpgrade(request, socket, UNKNOWN_PATH, { newId });
      const requestId = ensureRequestId(request, newId);
      const address = addressOf(request);
      server.handleUpgrade(request, socket, head, (ws) => {
        log.debug({ request_id: requestId }, 'websocket opened');
        void serve(ws, socket, { activeStream: stage, query, requestId, address });
      });
    },
    counts() {
      const counts = { connections: connections.size, apart: 0, waiting: 0, buffered: 0 };
      for (const { groups } of stages.values()) {
        const apart = groups.conflatingStats();
        counts.apart += apart.connections;
        counts.waiting += apart.waiting;
      }
      for (const connection of connections.keys()) counts.buffered += connection.buffered;
      return counts;
    },
    sizes() {
      const parts = [...stages.values()].flatMap(({ stream, groups }) => [stream, groups]);
      return { websocket_connections: connections.size, ...sumSizes(parts) };
    },
    async close() {
      clearInterval(looking);
      guests.close();
      for (const stage of stages.values()) stage.unsubscribe?.();
      const gone = new Promise<void>((resolve) => {
        closing = resolve;
      });
      for (const connection of connections.keys()) goAway(connection);
      if (connections.size > 0) await gone;
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
