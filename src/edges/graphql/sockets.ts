import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ExecutionArgs, type GraphQLError, Kind, OperationTypeNode } from 'graphql';
import { handleProtocols, makeServer } from 'graphql-ws';
import type { WebSocket } from 'ws';
import { referenceOf } from '../../domain/clock.ts';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import { parseJson } from '../../domain/json/strict.ts';
import { isObject } from '../../domain/json/value.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Milliseconds, Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import type { Caller, Services } from '../../operations/operation.ts';
import type { Perform } from '../../operations/perform.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { credentialIn } from '../shared/http.ts';
import type { Identity } from '../shared/identity.ts';
import { checkAccess, checkCurrentAccess, checkExpiry, refreshCaller } from '../shared/live/authorization.ts';
import { type CloseCode, closeFrameOf } from '../shared/live/close-codes.ts';
import { guardConnections } from '../shared/live/connection-guard.ts';
import { NO_SUBSCRIPTION, type Subscription } from '../shared/live/subscription.ts';
import { type UpdateKindName, updateKinds } from '../shared/live/update-kinds.ts';
import { makeWebSocketAuthenticator } from '../shared/live/websocket-authenticator.ts';
import type { RateLimiter } from '../shared/rate-limiter.ts';
import { ensureRequestId, makeWebSocketServer } from '../shared/upgrade.ts';
import { introspectionRefusal } from './access.ts';
import { toClientError } from './client-errors.ts';
import { type Context, makeContext } from './context.ts';
import type { PrepareDocument, PreparedDocument } from './documents.ts';
import type { LiveEventSource } from './live-event-source.ts';
import { RefusalError } from './refusal-error.ts';
import { parseRequestParams } from './request-params.ts';
import { updateKindOf } from './subscriptions.ts';

export interface SocketParts {
  services: Pick<
    Services,
    'actors' | 'clock' | 'log' | 'newId' | 'revocations' | 'users' | 'apiKeys' | 'agentTokens' | 'sealedCache'
  >;
  prepareDocument: PrepareDocument;
  eventSource: LiveEventSource;
  identity: Pick<Identity, 'authenticate'>;
  gate: Pick<RateLimiter, 'signInRefusal' | 'recordFailedSignIn' | 'chargeCaller'>;
  addressOf: AddressOf;
  perform: Perform;
  production: boolean;
  limits?: Partial<SocketLimits>;
}

/** What one client may cost. */
export interface SocketLimits {
  /** Bytes of a message. */
  maxPayload: number;
  /** Messages of a client between two looks. */
  maxMessages: number;
  /** That run at the same time on one connection. */
  maxOperations: number;
  /** Answers that wait to be read, more than all operations can have: of whoever asks and asks, and reads nothing. */
  maxPendingSends: number;
  /** From the handshake to `connection_init`. */
  initMs: Milliseconds;
  /** How often credentials are looked at: their end closes within a second (contract §6). */
  credentialCheckMs: Milliseconds;
  /** A client that does not answer two of these is dead. */
  pingMs: Milliseconds;
}

const defaultLimits: SocketLimits = {
  maxPayload: 256 * 1024,
  maxMessages: 200,
  maxOperations: 100,
  maxPendingSends: 1_000,
  initMs: 10_000,
  credentialCheckMs: 250,
  pingMs: 30_000,
};

export interface GraphqlSockets extends SizeReporter {
  /** For the HTTP server's `upgrade` at this edge's path. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  connections(): number;
  /** Says goodbye to everybody; resolves when they are gone. */
  close(): Promise<void>;
}

/** One thing that is listened for, as long as it is. */
interface ActiveSubscription {
  kind: UpdateKindName;
  unsubscribe(): void;
}

interface Client {
  ws: WebSocket;
  requestId: Uuid;
  address: string;
  caller: Caller | null;
  subscription: Subscription;
  /** What its subscriptions listen for, each once. */
  activeSubscriptions: Set<ActiveSubscription>;
  messages: number;
  /** Answers that are not written yet. */
  pendingSends: number;
  missedPings: number;
}

/** Subscriptions, and queries and mutations on the same connection (graphql-transport-ws). */
export function makeGraphqlSockets(parts: SocketParts): GraphqlSockets {
  const { services, prepareDocument, eventSource, gate, perform, production } = parts;
  const { clock, log, newId } = services;
  const limits = { ...defaultLimits, ...parts.limits };
  const signIn = makeWebSocketAuthenticator(services, parts.identity, gate);
  const handshakes = makeWebSocketServer({ maxPayload: limits.maxPayload, handleProtocols }, newId);
  const clients = new Set<Client>();
  const guests = guardConnections(services, () => clients, end);
  let closing: (() => void) | null = null;
  const tooMany: Refusal = { code: 'OVERLOADED', detail: `At most ${limits.maxOperations} operations run at a time.` };

  function end({ ws }: Client, refusal: Refusal): void {
    const { code, reason } = closeFrameOf(refusal);
    shut(ws, code, reason);
  }

  /** Nothing is missed between the look at who they are and what is looked at from then on. */
  async function admit(client: Client, given: unknown): Promise<Refusal | null> {
    const { requestId, address } = client;
    const who = await signIn(credentialOf(given), { via: 'graphql', requestId, address });
    if (!who.ok) return who.refusal;
    const barred = checkAccess(who.value, NO_SUBSCRIPTION) ?? checkExpiry(who.value, referenceOf(clock));
    if (barred !== null) return barred;
    client.caller = who.value;
    return checkCurrentAccess(services, who.value, NO_SUBSCRIPTION);
  }

  async function contextFor(client: Client): Promise<Context> {
    if (client.caller === null) throw new Error('nobody asked');
    const now = await refreshCaller(services, client.caller);
    if (!now.ok) throw new RefusalError(now.refusal, client.requestId);
    // Each operation is a request of its own.
    const requestId = newId();
    const caller = { ...now.value, requestId, principal: { ...now.value.principal, requestId } };
    return makeContext({ caller, perform, eventSource: feedOf(client, caller) });
  }

  /**
   * The feed, as far as one connection hears it. What its standing is looked at for is what it really listens for, and all of
   * that ends with the connection: an id tells neither, since a client may use one again while its first operation runs on.
   */
  function feedOf(client: Client, { requestId }: Caller): LiveEventSource {
    return {
      subscriberCount: eventSource.subscriberCount,
      subscribe(kind, tenantId, ear) {
        if (!clients.has(client) || client.activeSubscriptions.size >= limits.maxOperations)
          throw new RefusalError(tooMany, requestId);
        const hearing: ActiveSubscription = { kind, unsubscribe: eventSource.subscribe(kind, tenantId, ear) };
        client.activeSubscriptions.add(hearing);
        updateAuthorizedKinds(client);
        return () => {
          if (!client.activeSubscriptions.delete(hearing)) return;
          hearing.unsubscribe();
          updateAuthorizedKinds(client);
        };
      },
    };
  }

  /** Why an operation is not carried out for this caller. */
  async function barsOperation(client: Client, caller: Caller, found: PreparedDocument): Promise<Refusal | null> {
    const barred = found.introspects ? introspectionRefusal(caller, production) : null;
    if (barred !== null) return barred;
    if (found.operation.operation !== OperationTypeNode.SUBSCRIPTION) {
      return (await gate.chargeCaller(caller, client.address)).refusal;
    }
    const kind = subscribedKind(found);
    if (kind === null) return null;
    const interest: Subscription = { ...NO_SUBSCRIPTION, kinds: new Map([[kind, updateKinds[kind]]]) };
    return checkAccess(caller, interest);
  }

  const server = makeServer<Record<string, unknown>, Client>({
    connectionInitWaitTimeout: limits.initMs,
    async onConnect({ extra: client, connectionParams }) {
      const refusal = await admit(client, connectionParams);
      if (refusal === null) return true;
      end(client, refusal);
      return false;
    },
    async onSubscribe({ extra: client, subscriptions }, _id, payload): Promise<ExecutionArgs | GraphQLError[]> {
      const context = await contextFor(client);
      const { caller } = context;
      const refused = (refusal: Refusal) => [new RefusalError(refusal, caller.requestId)];
      if (Object.keys(subscriptions).length > limits.maxOperations) {
        return refused(tooMany);
      }
      const read = parseRequestParams(payload as never);
      if (!read.ok) return refused(read.refusal);
      const found = prepareDocument(read.value);
      if ('errors' in found) {
        // It was read all the same. Who goes on beyond the rate has to connect again, since a refusal would cost them nothing.
        const { refusal } = await gate.chargeCaller(caller, client.address);
        if (refusal !== null) throw new RefusalError(refusal, caller.requestId);
        return [...found.errors];
      }
      const barred = await barsOperation(client, caller, found);
      if (barred !== null) return refused(barred);
      const { operationName, variables } = read.value;
      return {
        ...found.executed,
        operationName,
        variableValues: variables,
        contextValue: context,
        hideSuggestions: production,
      };
    },
    onNext: ({ extra: client }, _id, _payload, _args, result) =>
      result.errors === undefined ? undefined : ({ ...result, errors: shown(client, result.errors) } as never),
    onError: ({ extra: client }, _id, _payload, errors) => shown(client, errors),
  });

  const shown = ({ requestId }: Client, errors: readonly GraphQLError[]) =>
    errors.map((error) => toClientError(error, log, requestId).toJSON());

  function serve(ws: WebSocket, requestId: Uuid, address: string): void {
    const client: Client = {
      ...{ ws, requestId, address, caller: null, subscription: NO_SUBSCRIPTION, activeSubscriptions: new Set() },
      messages: 0,
      pendingSends: 0,
      missedPings: 0,
    };
    // What a client sends wrongly is answered with a close frame by the library.
    ws.on('error', () => {});
    if (closing !== null) {
      goAway(ws);
      return;
    }
    clients.add(client);
    const closed = server.opened(
      {
        protocol: ws.protocol,
        send: (data) =>
          new Promise((resolve, reject) => {
            if (client.pendingSends >= limits.maxPendingSends) shut(ws, 1013, 'too slow: connect again');
            if (ws.readyState !== ws.OPEN) return resolve();
            client.pendingSends += 1;
            ws.send(data, (fault) => {
              client.pendingSends -= 1;
              if (fault) reject(fault);
              else resolve();
            });
          }),
        close: (code, reason) => shut(ws, code ?? 1000, reason ?? ''),
        onMessage(take) {
          ws.on('message', (data, binary) => {
            client.messages += 1;
            client.missedPings = 0;
            const text = String(data);
            // What no JSON reader should take is refused on every wire.
            if (binary || !parseJson(text).ok) return shut(ws, 4400, 'VALIDATION_FAILED: this is no valid message');
            take(text).catch((thrown: unknown) => end(client, faultOf(thrown, requestId)));
          });
        },
      },
      client,
    );
    ws.on('pong', () => {
      client.missedPings = 0;
    });
    ws.on('close', (code, reason) => {
      clients.delete(client);
      for (const { unsubscribe } of client.activeSubscriptions) unsubscribe();
      closed(code, String(reason)).catch((thrown: unknown) => faultOf(thrown, requestId));
      if (clients.size === 0) closing?.();
    });
  }

  const faultOf = (thrown: unknown, requestId: Uuid): Refusal =>
    thrown instanceof RefusalError
      ? thrown.refusal
      : refusalOf(thrown, log, { request_id: requestId, operation: 'graphql' });

  let pingAt = performance.now() + limits.pingMs;
  const looking = setInterval(() => {
    guests.endExpired();
    const now = performance.now();
    const pinging = now >= pingAt;
    if (pinging) pingAt = now + limits.pingMs;
    for (const client of clients) {
      if (client.messages > limits.maxMessages) shut(client.ws, 1008, 'too many messages');
      client.messages = 0;
      if (!pinging) continue;
      client.missedPings += 1;
      if (client.missedPings > 2) client.ws.terminate();
      else if (client.ws.readyState === client.ws.OPEN) client.ws.ping();
    }
  }, limits.credentialCheckMs);
  looking.unref();

  return {
    upgrade(request, socket, head) {
      const requestId = ensureRequestId(request, newId);
      const address = parts.addressOf(request);
      handshakes.handleUpgrade(request, socket, head, (ws) => serve(ws, requestId, address));
    },
    connections: () => clients.size,
    sizes: () => ({ graphql_connections: clients.size }),
    async close() {
      clearInterval(looking);
      guests.close();
      const gone = new Promise<void>((resolve) => {
        closing = resolve;
      });
      for (const { ws } of clients) goAway(ws);
      if (clients.size > 0) await gone;
    },
  };
}

/** What the client hears now needs the role and scope that its standing is looked at for. */
function updateAuthorizedKinds(client: Client): void {
  client.subscription = {
    ...NO_SUBSCRIPTION,
    kinds: new Map([...client.activeSubscriptions].map(({ kind }) => [kind, updateKinds[kind]])),
  };
}

function subscribedKind({ operation, document }: PreparedDocument): UpdateKindName | null {
  let [selection] = operation.selectionSet.selections;
  // One root field alone, which may stand in fragments: that is a rule of the language.
  while (selection !== undefined && selection.kind !== Kind.FIELD) {
    const fragment = selection;
    const inside =
      fragment.kind === Kind.INLINE_FRAGMENT
        ? fragment
        : document.definitions.find(
            (one) => one.kind === Kind.FRAGMENT_DEFINITION && one.name.value === fragment.name.value,
          );
    selection =
      inside !== undefined && 'selectionSet' in inside
        ? (inside.selectionSet?.selections[0] as typeof selection)
        : undefined;
  }
  return selection === undefined ? null : updateKindOf(selection.name.value);
}

/** `{"Authorization": "Bearer …"}`, whatever the case of its name. */
function credentialOf(given: unknown): string | null {
  if (!isObject(given)) return null;
  const [, value] = Object.entries(given).find(([name]) => name.toLowerCase() === 'authorization') ?? [];
  return typeof value === 'string' ? credentialIn({ authorization: value }) : null;
}

/** How long a peer may take to answer a close frame. */
const CLOSE_MS = 2_000;

function shut(ws: WebSocket, code: CloseCode | number, reason: string): void {
  if (ws.readyState !== ws.OPEN) return;
  ws.close(code, Buffer.from(reason).subarray(0, 120).toString());
  setTimeout(() => ws.terminate(), CLOSE_MS).unref();
}

const goAway = (ws: WebSocket): void => shut(ws, 1001, 'the service is shutting down');
