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
import type { Gate } from '../shared/gate.ts';
import type { Identity } from '../shared/identity.ts';
import { closeOf } from '../shared/live/close-codes.ts';
import { keepGuests } from '../shared/live/guests.ts';
import { NOTHING } from '../shared/live/interest.ts';
import { makeSignIn } from '../shared/live/sign-in.ts';
import { bars, barsAround, isOver } from '../shared/live/standing.ts';
import { refuseUpgrade, settledRequestId, webSocketServer } from '../shared/upgrade.ts';
import { Audiences } from './audiences.ts';
import { Connection } from './connection.ts';
import { defaultLimits, type SocketLimits } from './limits.ts';
import type { Stream } from './stream.ts';

export interface SocketParts {
  services: Pick<
    Services,
    'actors' | 'clock' | 'log' | 'newId' | 'revocations' | 'users' | 'keys' | 'presented' | 'vault'
  >;
  streams: readonly Stream[];
  identity: Pick<Identity, 'authenticate'>;
  gate: Pick<Gate, 'barsSignIn' | 'failedSignIn'>;
  addressOf: AddressOf;
  limits?: Partial<SocketLimits>;
}

/** The WebSockets that only tell: `/ws/state` and `/ws/actors` (contract §6). */
export interface Sockets extends SizeReporter {
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
  stage: Stage;
  query: URLSearchParams;
  requestId: Uuid;
  address: string;
}

const NOWHERE: Refusal = { code: 'NOT_FOUND', detail: 'There is nothing at this path.' };

/** A stream with those who hear it. */
interface Stage {
  stream: Stream;
  audiences: Audiences;
  /** Ends the listening; null while nobody is there. */
  ears: (() => void) | null;
}

export function makeSockets({ services, identity, gate, addressOf, streams, limits: given }: SocketParts): Sockets {
  const { clock, log, newId } = services;
  const limits = { ...defaultLimits, ...given };
  const server = webSocketServer({ maxPayload: limits.maxPayload }, newId);
  const stages = new Map<string, Stage>(
    streams.map((stream) => [stream.path, { stream, audiences: new Audiences(), ears: null }]),
  );
  const connections = new Map<Connection, Stage>();
  const signIn = makeSignIn(services, identity, gate);
  let closing: (() => void) | null = null;

  /** Lets a client in, or says why not. Nothing is missed between its snapshot and what follows. */
  async function admit(connection: Connection, stage: Stage, caller: Caller): Promise<Refusal | null> {
    const { interest } = connection;
    const { stream, audiences } = stage;
    const barred = bars(caller, interest) ?? isOver(caller, referenceOf(clock));
    const tenantId = interest.tenantId ?? caller.tenantId;
    if (barred !== null || tenantId === null) return barred;
    connection.caller = caller;
    stage.ears ??= stream.listen((update) => audiences.tell(update));
    audiences.add(connection, tenantId);
    const refused = await barsAround(services, caller, interest);
    if (refused !== null) return refused;
    const snapshot = await stream.snapshot(tenantId, interest);
    connection.admit(snapshot, performance.now());
    audiences.wake(connection);
    return null;
  }

  /** Nothing is listened for while nobody hears it. */
  function leave(connection: Connection, stage: Stage): void {
    stage.audiences.remove(connection);
    if (!stage.audiences.empty) return;
    stage.ears?.();
    stage.ears = null;
  }

  async function serve(ws: WebSocket, socket: Duplex, { stage, query, requestId, address }: Handshake): Promise<void> {
    const interest = stage.stream.read(query);
    const connection: Connection = new Connection({
      ws,
      socket,
      limits,
      interest: interest.ok ? interest.value : NOTHING,
      drained: () => stage.audiences.wake(connection),
    });
    connections.set(connection, stage);
    ws.on('close', () => {
      connections.delete(connection);
      leave(connection, stage);
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
        interest.ok || caller.value.user === null ? await admit(connection, stage, caller.value) : interest.refusal;
      if (refusal !== null) end(connection, refusal);
    } catch (thrown) {
      end(connection, refusalOf(thrown, log, { request_id: requestId, operation: stage.stream.path }));
    }
  }

  function end(connection: Connection, refusal: Refusal): void {
    const stage = connections.get(connection);
    if (stage !== undefined) leave(connection, stage);
    const { code, reason } = closeOf(refusal);
    connection.close(code, reason);
  }

  const guests = keepGuests(services, () => connections.keys(), end);

  let pingAt = performance.now() + limits.pingMs;
  const looking = setInterval(() => {
    const now = performance.now();
    const pinging = now >= pingAt;
    if (pinging) pingAt = now + limits.pingMs;
    guests.look();
    for (const [connection, { audiences }] of connections)
      if (connection.look(now, pinging)) audiences.wake(connection);
  }, limits.lookMs);
  looking.unref();

  return {
    upgrade(request, socket, head) {
      const { path, query } = split(request.url ?? '');
      request.url = path;
      const stage = stages.get(path);
      if (stage === undefined) return refuseUpgrade(request, socket, NOWHERE, { newId });
      const requestId = settledRequestId(request, newId);
      const address = addressOf(request);
      server.handleUpgrade(request, socket, head, (ws) => {
        log.debug({ request_id: requestId }, 'websocket opened');
        void serve(ws, socket, { stage, query, requestId, address });
      });
    },
    counts() {
      const counts = { connections: connections.size, apart: 0, waiting: 0, buffered: 0 };
      for (const { audiences } of stages.values()) {
        const apart = audiences.apart();
        counts.apart += apart.connections;
        counts.waiting += apart.waiting;
      }
      for (const connection of connections.keys()) counts.buffered += connection.buffered;
      return counts;
    },
    sizes() {
      const parts = [...stages.values()].flatMap(({ stream, audiences }) => [stream, audiences]);
      return { websocket_connections: connections.size, ...sumSizes(parts) };
    },
    async close() {
      clearInterval(looking);
      guests.close();
      for (const stage of stages.values()) stage.ears?.();
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
