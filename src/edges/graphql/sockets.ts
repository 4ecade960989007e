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
  rateLimiter: Pick<RateLimiter, 'signInRefusal' | 'recordFailedSignIn' | 'chargeCaller'>;
  addressOf: AddressOf;
  perform: Perform;
  production: boolean;
  limits?: Partial<SocketLimits>;
}

/** Limits of one connection. */
export interface SocketLimits {
  /** Bytes of a message. */
  maxPayload: number;
  /** Messages per `credentialCheckMs`. */
  maxMessages: number;
  /** Concurrent operations. */
  maxOperations: number;
  /** Unsent responses: more than all operations can have, so only a client that sends requests without reading reaches it. */
  maxPendingSends: number;
  /** Time from the handshake to `connection_init`. */
  initMs: Milliseconds;
  /** Interval of credential checks: an expired credential closes the connection within a second (contract §6). */
  credentialCheckMs: Milliseconds;
  /** Ping interval; a client that misses two pings is terminated. */
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
  /** Handles the HTTP server's `upgrade` event for this edge's path. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  connections(): number;
  /** Closes all connections; resolves when they are closed. */
  close(): Promise<void>;
}

/** A running subscription of one connection. */
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
  /** One entry per running subscription. */
  activeSubscriptions: Set<ActiveSubscription>;
  messages: number;
  /** Responses that are not written yet. */
  pendingSends: number;
  missedPings: number;
}

/** WebSocket server for subscriptions, queries and mutations (graphql-transport-ws). */
export function makeGraphqlSockets(parts: SocketParts): GraphqlSockets {
  const { services, prepareDocument, eventSource, rateLimiter, perform, production } = parts;
  const { clock, log, newId } = services;
  const limits = { ...defaultLimits, ...parts.limits };
  const signIn = makeWebSocketAuthenticator(services, parts.identity, rateLimiter);
  const handshakes = makeWebSocketServer({ maxPayload: limits.maxPayload, handleProtocols }, newId);
  const clients = new Set<Client>();
  const guard = guardConnections(services, () => clients, end);
  let closing: (() => void) | null = null;
  const tooMany: Refusal = {
    code: 'OVERLOADED',
    detail: `At most ${limits.maxOperations} operations can run at a time.`,
  };

  function end({ ws }: Client, refusal: Refusal): void {
    const { code, reason } = closeFrameOf(refusal);
    shut(ws, code, reason);
  }

  /** Checks access again after setting the caller: a revocation in between would otherwise be missed. */
  async function admit(client: Client, given: unknown): Promise<Refusal | null> {
    const { requestId, address } = client;
    const signedIn = await signIn(credentialOf(given), { via: 'graphql', requestId, address });
    if (!signedIn.ok) return signedIn.refusal;
    const caller = signedIn.value;
    const refusal = checkAccess(caller, NO_SUBSCRIPTION) ?? checkExpiry(caller, referenceOf(clock));
    if (refusal !== null) return refusal;
    client.caller = caller;
    return checkCurrentAccess(services, caller, NO_SUBSCRIPTION);
  }

  async function contextFor(client: Client): Promise<Context> {
    if (client.caller === null) throw new Error('operation on an unauthenticated connection');
    const now = await refreshCaller(services, client.caller);
    if (!now.ok) throw new RefusalError(now.refusal, client.requestId);
    // Each operation has its own request ID.
    const requestId = newId();
    const caller = { ...now.value, requestId, principal: { ...now.value.principal, requestId } };
    return makeContext({ caller, perform, eventSource: eventSourceFor(client, caller) });
  }

  /**
   * The event source as one connection uses it. Tracks the subscriptions that really run, because access is checked for these
   * and all of them end with the connection. Operation IDs cannot be used instead: a client may reuse one while it is still running.
   */
  function eventSourceFor(client: Client, { requestId }: Caller): LiveEventSource {
    return {
      subscriberCount: eventSource.subscriberCount,
      subscribe(kind, tenantId, listener) {
        if (!clients.has(client) || client.activeSubscriptions.size >= limits.maxOperations)
          throw new RefusalError(tooMany, requestId);
        const subscription: ActiveSubscription = { kind, unsubscribe: eventSource.subscribe(kind, tenantId, listener) };
        client.activeSubscriptions.add(subscription);
        updateAuthorizedKinds(client);
        return () => {
          if (!client.activeSubscriptions.delete(subscription)) return;
          subscription.unsubscribe();
          updateAuthorizedKinds(client);
        };
      },
    };
  }

  /** Why this caller may not run the operation; null if they may. */
  async function operationRefusal(client: Client, caller: Caller, prepared: PreparedDocument): Promise<Refusal | null> {
    const refusal = prepared.introspects ? introspectionRefusal(caller, production) : null;
    if (refusal !== null) return refusal;
    if (prepared.operation.operation !== OperationTypeNode.SUBSCRIPTION) {
      return (await rateLimiter.chargeCaller(caller, client.address)).refusal;
    }
    const kind = subscribedKind(prepared);
    if (kind === null) return null;
    return checkAccess(caller, { ...NO_SUBSCRIPTION, kinds: new Map([[kind, updateKinds[kind]]]) });
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
      const prepared = prepareDocument(read.value);
      if ('errors' in prepared) {
        // Parsing an invalid document costs the same, so it is charged too. Beyond the rate limit the connection is closed,
        // because an error response alone would not slow the client down.
        const { refusal } = await rateLimiter.chargeCaller(caller, client.address);
        if (refusal !== null) throw new RefusalError(refusal, caller.requestId);
        return [...prepared.errors];
      }
      const refusal = await operationRefusal(client, caller, prepared);
      if (refusal !== null) return refused(refusal);
      const { operationName, variables } = read.value;
      return {
        ...prepared.executed,
        operationName,
        variableValues: variables,
        contextValue: context,
        hideSuggestions: production,
      };
    },
    onNext: ({ extra: client }, _id, _payload, _args, result) =>
      result.errors === undefined ? undefined : ({ ...result, errors: clientErrors(client, result.errors) } as never),
    onError: ({ extra: client }, _id, _payload, errors) => clientErrors(client, errors),
  });

  const clientErrors = ({ requestId }: Client, errors: readonly GraphQLError[]) =>
    errors.map((error) => toClientError(error, log, requestId).toJSON());

  function serve(ws: WebSocket, requestId: Uuid, address: string): void {
    const client: Client = {
      ...{ ws, requestId, address, caller: null, subscription: NO_SUBSCRIPTION, activeSubscriptions: new Set() },
      messages: 0,
      pendingSends: 0,
      missedPings: 0,
    };
    // The library answers a client's protocol error with a close frame.
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
            if (client.pendingSends >= limits.maxPendingSends) shut(ws, 1013, 'client reads too slowly; reconnect');
            if (ws.readyState !== ws.OPEN) return resolve();
            client.pendingSends += 1;
            ws.send(data, (fault) => {
              client.pendingSends -= 1;
              if (fault) reject(fault);
              else resolve();
            });
          }),
        close: (code, reason) => shut(ws, code ?? 1000, reason ?? ''),
        onMessage(receive) {
          ws.on('message', (data, binary) => {
            client.messages += 1;
            client.missedPings = 0;
            const text = String(data);
            // JSON that parsers read differently is refused on every edge.
            if (binary || !parseJson(text).ok) return shut(ws, 4400, 'VALIDATION_FAILED: the message is not valid');
            receive(text).catch((thrown: unknown) => end(client, faultOf(thrown, requestId)));
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
  const checkTimer = setInterval(() => {
    guard.endExpired();
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
  checkTimer.unref();

  return {
    upgrade(request, socket, head) {
      const requestId = ensureRequestId(request, newId);
      const address = parts.addressOf(request);
      handshakes.handleUpgrade(request, socket, head, (ws) => serve(ws, requestId, address));
    },
    connections: () => clients.size,
    sizes: () => ({ graphql_connections: clients.size }),
    async close() {
      clearInterval(checkTimer);
      guard.close();
      const allClosed = new Promise<void>((resolve) => {
        closing = resolve;
      });
      for (const { ws } of clients) goAway(ws);
      if (clients.size > 0) await allClosed;
    },
  };
}

/** Access checks cover the roles and scopes of the kinds that the connection is subscribed to now. */
function updateAuthorizedKinds(client: Client): void {
  client.subscription = {
    ...NO_SUBSCRIPTION,
    kinds: new Map([...client.activeSubscriptions].map(({ kind }) => [kind, updateKinds[kind]])),
  };
}

function subscribedKind({ operation, document }: PreparedDocument): UpdateKindName | null {
  let [selection] = operation.selectionSet.selections;
  // A subscription has exactly one root field (GraphQL specification), which may be inside fragments.
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

/** From `{"Authorization": "Bearer …"}`; the name is case-insensitive. */
function credentialOf(given: unknown): string | null {
  if (!isObject(given)) return null;
  const [, value] = Object.entries(given).find(([name]) => name.toLowerCase() === 'authorization') ?? [];
  return typeof value === 'string' ? credentialIn({ authorization: value }) : null;
}

/** Time that a peer has to answer a close frame. */
const CLOSE_MS = 2_000;

function shut(ws: WebSocket, code: CloseCode | number, reason: string): void {
  if (ws.readyState !== ws.OPEN) return;
  ws.close(code, Buffer.from(reason).subarray(0, 120).toString());
  setTimeout(() => ws.terminate(), CLOSE_MS).unref();
}

const goAway = (ws: WebSocket): void => shut(ws, 1001, 'the service is shutting down');
