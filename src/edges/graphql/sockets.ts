import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ExecutionArgs, type GraphQLError, type GraphQLFormattedError, Kind, OperationTypeNode } from 'graphql';
import { handleProtocols, makeServer, type Server } from 'graphql-ws';
import type { WebSocket, WebSocketServer } from 'ws';
import { referenceOf } from '../../domain/clock.ts';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import { isObject } from '../../domain/json/value.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import type { Caller, Services } from '../../operations/operation.ts';
import type { Perform } from '../../operations/perform.ts';
import type { Authenticator } from '../shared/authenticator.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { credentialIn } from '../shared/http.ts';
import { checkAccess, checkCurrentAccess, checkExpiry, refreshCaller } from '../shared/live/authorization.ts';
import {
  type ConnectionGuard,
  guardConnections,
  TENANT_MOVED,
  tenantOfConnection,
} from '../shared/live/connection-guard.ts';
import { ConnectionQuota } from '../shared/live/connection-quota.ts';
import { LiveReach } from '../shared/live/live-reach.ts';
import { NO_SUBSCRIPTION } from '../shared/live/subscription.ts';
import { type UpdateKindName, updateKinds } from '../shared/live/update-kinds.ts';
import { makeWebSocketAuthenticator, type WebSocketAuthenticator } from '../shared/live/websocket-authenticator.ts';
import { RequestCost, type RequestRateLimiter } from '../shared/rate-limiter.ts';
import { TOO_MANY_UNAUTHENTICATED, UnauthenticatedConnections } from '../shared/unauthenticated-connections.ts';
import { ensureRequestId, makeWebSocketServer, refuseUpgrade } from '../shared/upgrade.ts';
import { introspectionRefusal } from './access.ts';
import { toClientError } from './client-errors.ts';
import type { PrepareDocument, PreparedDocument } from './documents.ts';
import { type ConnectionOrigin, GraphqlConnection } from './graphql-connection.ts';
import { type GraphqlContext, makeGraphqlContext } from './graphql-context.ts';
import type { LiveEventSource } from './live-event-source.ts';
import { RefusalError } from './refusal-error.ts';
import { parseRequestParams } from './request-params.ts';
import { defaultSocketLimits, type SocketLimits } from './socket-limits.ts';
import { updateKindOf } from './subscriptions.ts';

export interface SocketParts {
  services: Pick<
    Services,
    | 'actors'
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
  prepareDocument(...params: Parameters<PrepareDocument>): Promise<ReturnType<PrepareDocument>>;
  eventSource: LiveEventSource;
  identity: Pick<Authenticator, 'authenticate'>;
  rateLimiter: Pick<RequestRateLimiter, 'signInRefusal' | 'recordFailedSignIn' | 'chargeCaller'>;
  addressOf: AddressOf;
  perform: Perform;
  production: boolean;
  limits?: Partial<SocketLimits>;
  /** Shared with the other edges with WebSockets. */
  quota?: ConnectionQuota;
}

/** WebSocket server for subscriptions, queries and mutations (graphql-transport-ws). */
export class GraphqlSockets implements SizeReporter {
  readonly #parts: SocketParts;
  readonly #limits: SocketLimits;
  readonly #signIn: WebSocketAuthenticator;
  readonly #handshakes: WebSocketServer;
  readonly #server: Server<GraphqlConnection>;
  readonly #connections = new Set<GraphqlConnection>();
  readonly #unauthenticated: UnauthenticatedConnections;
  readonly #quota: ConnectionQuota;
  readonly #guard: ConnectionGuard;
  readonly #checkTimer: NodeJS.Timeout;
  readonly #tooMany: Refusal;
  #pingAt: number;
  #closing: (() => void) | null = null;

  constructor(parts: SocketParts) {
    const { services, identity, rateLimiter } = parts;
    const limits = { ...defaultSocketLimits, ...parts.limits };
    this.#parts = parts;
    this.#limits = limits;
    this.#signIn = makeWebSocketAuthenticator(services, identity, rateLimiter);
    this.#quota = parts.quota ?? new ConnectionQuota();
    this.#unauthenticated = new UnauthenticatedConnections(limits.unauthenticated);
    this.#handshakes = makeWebSocketServer({ maxPayload: limits.maxPayload, handleProtocols }, services.newId);
    this.#server = this.#makeServer();
    this.#guard = guardConnections(
      services,
      () => this.#connections,
      (connection, refusal) => connection.end(refusal),
    );
    this.#tooMany = {
      code: 'OVERLOADED',
      detail: `At most ${limits.maxOperations} operations can run at a time.`,
    };
    this.#pingAt = performance.now() + limits.pingMs;
    this.#checkTimer = setInterval(() => this.#check(), limits.credentialCheckMs).unref();
  }

  /** Handles the HTTP server's `upgrade` event for this edge's path. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const requestId = ensureRequestId(request, this.#parts.services.newId);
    const address = this.#parts.addressOf(request);
    const pending = this.#unauthenticated.admit(socket, address);
    if (pending === null) {
      refuseUpgrade(request, socket, TOO_MANY_UNAUTHENTICATED, { newId: this.#parts.services.newId });
      return;
    }
    const userAgent = request.headers['user-agent'];
    this.#handshakes.handleUpgrade(request, socket, head, (ws) =>
      this.#serve(ws, { requestId, address, userAgent, pending }),
    );
  }

  connections(): number {
    return this.#connections.size;
  }

  sizes(): CollectionSizes {
    return { graphql_connections: this.#connections.size, ...this.#unauthenticated.sizes() };
  }

  /** Closes all connections; resolves when they are closed. */
  async close(): Promise<void> {
    clearInterval(this.#checkTimer);
    this.#guard.close();
    const allClosed = new Promise<void>((resolve) => {
      this.#closing = resolve;
    });
    for (const connection of this.#connections) connection.goAway();
    if (this.#connections.size > 0) await allClosed;
  }

  /** Closes the connections of the tenants for which `matches` returns true: another node serves them. */
  endTenants(matches: (tenantId: Uuid) => boolean): void {
    for (const connection of this.#connections) {
      const tenantId = tenantOfConnection(connection);
      if (tenantId !== null && matches(tenantId)) connection.shut(1001, TENANT_MOVED);
    }
  }

  #makeServer(): Server<GraphqlConnection> {
    return makeServer<Record<string, unknown>, GraphqlConnection>({
      connectionInitWaitTimeout: this.#limits.initMs,
      onConnect: async ({ extra: connection, connectionParams }) => {
        const refusal = await this.#admit(connection, connectionParams);
        if (refusal === null) return true;
        connection.end(refusal);
        return false;
      },
      onSubscribe: ({ extra: connection, subscriptions }, _id, payload) =>
        this.#prepare(connection, Object.keys(subscriptions).length, payload),
      onNext: ({ extra: connection }, _id, _payload, _args, result) =>
        result.errors === undefined
          ? undefined
          : ({ ...result, errors: this.#clientErrors(connection, result.errors) } as never),
      onError: ({ extra: connection }, _id, _payload, errors) => this.#clientErrors(connection, errors),
    });
  }

  /** Checks access again after setting the caller: a revocation in between would otherwise be missed. */
  async #admit(connection: GraphqlConnection, given: unknown): Promise<Refusal | null> {
    const { requestId, address, userAgent, pending } = connection.origin;
    const signedIn = await this.#signIn(credentialOf(given), { via: 'graphql', requestId, address, client: userAgent });
    if (!signedIn.ok) return signedIn.refusal;
    const caller = signedIn.value;
    const refusal =
      checkAccess(caller, NO_SUBSCRIPTION) ?? checkExpiry(caller, referenceOf(this.#parts.services.clock));
    if (refusal !== null) return refusal;
    const entered = this.#quota.enter(caller);
    if (!entered.ok) return entered.refusal;
    if (this.#connections.has(connection)) connection.ws.once('close', entered.value);
    else entered.value();
    connection.caller = caller;
    pending.signedIn();
    return checkCurrentAccess(this.#parts.services, caller, NO_SUBSCRIPTION);
  }

  async #contextFor(connection: GraphqlConnection): Promise<GraphqlContext> {
    if (connection.caller === null) throw new Error('operation on an unauthenticated connection');
    const now = await refreshCaller(this.#parts.services, connection.caller);
    if (!now.ok) throw new RefusalError(now.refusal, connection.origin.requestId);
    // Each operation has its own request ID.
    const requestId = this.#parts.services.newId();
    const caller = { ...now.value, requestId, principal: { ...now.value.principal, requestId } };
    return makeGraphqlContext({
      caller,
      perform: this.#parts.perform,
      charge: new RequestCost(this.#parts.rateLimiter, { caller, address: connection.origin.address }, () => {}).charge,
      eventSource: this.#eventSourceFor(connection, caller),
      openReach: (onLost) => LiveReach.of(this.#parts.services, caller, onLost),
    });
  }

  /**
   * The event source as one connection uses it. Tracks the subscriptions that really run, because access is checked for these
   * and all of them end with the connection. Operation IDs cannot be used instead: a client may reuse one while it is still running.
   */
  #eventSourceFor(connection: GraphqlConnection, { requestId }: Caller): LiveEventSource {
    const { eventSource } = this.#parts;
    return {
      subscriberCount: eventSource.subscriberCount,
      subscribe: (kind, tenantId, listener) => {
        if (!this.#connections.has(connection) || connection.isFull) throw new RefusalError(this.#tooMany, requestId);
        return connection.addSubscription(kind, eventSource.subscribe(kind, tenantId, listener));
      },
    };
  }

  /** The operation of a `subscribe` message, ready to be executed, or why it is refused. */
  async #prepare(
    connection: GraphqlConnection,
    running: number,
    payload: unknown,
  ): Promise<ExecutionArgs | GraphQLError[]> {
    const { prepareDocument, rateLimiter, production } = this.#parts;
    const context = await this.#contextFor(connection);
    const { caller } = context;
    const refused = (refusal: Refusal) => [new RefusalError(refusal, caller.requestId)];
    if (running > this.#limits.maxOperations) return refused(this.#tooMany);
    const read = parseRequestParams(payload as never);
    if (!read.ok) return refused(read.refusal);
    const prepared = await prepareDocument(read.value);
    if ('errors' in prepared) {
      // Parsing an invalid document costs the same, so it is charged too. Beyond the rate limit the connection is closed,
      // because an error response alone would not slow the client down.
      const { refusal } = await rateLimiter.chargeCaller(caller, connection.origin.address);
      if (refusal !== null) throw new RefusalError(refusal, caller.requestId);
      return prepared.errors.map((error) => toClientError(error, this.#parts.services.log, caller.requestId));
    }
    const refusal = await this.#operationRefusal(connection, caller, prepared);
    if (refusal !== null) return refused(refusal);
    const { operationName, variables } = read.value;
    return {
      ...prepared.executed,
      operationName,
      variableValues: variables,
      contextValue: context,
      hideSuggestions: production,
    };
  }

  /** Why this caller may not run the operation; null if they may. */
  async #operationRefusal(
    connection: GraphqlConnection,
    caller: Caller,
    prepared: PreparedDocument,
  ): Promise<Refusal | null> {
    const refusal = prepared.introspects ? introspectionRefusal(caller, this.#parts.production) : null;
    if (refusal !== null) return refusal;
    if (prepared.operation.operation !== OperationTypeNode.SUBSCRIPTION) {
      return (await this.#parts.rateLimiter.chargeCaller(caller, connection.origin.address)).refusal;
    }
    const kind = subscribedKind(prepared);
    if (kind === null) return null;
    return checkAccess(caller, { ...NO_SUBSCRIPTION, kinds: new Map([[kind, updateKinds[kind]]]) });
  }

  #clientErrors({ origin }: GraphqlConnection, errors: readonly GraphQLError[]): GraphQLFormattedError[] {
    const { requestId } = origin;
    return errors.map((error) => toClientError(error, this.#parts.services.log, requestId).toJSON());
  }

  #serve(ws: WebSocket, origin: ConnectionOrigin): void {
    const connection = new GraphqlConnection(ws, origin, this.#limits);
    if (this.#closing !== null) {
      connection.goAway();
      return;
    }
    this.#connections.add(connection);
    const closed = this.#server.opened(
      {
        protocol: ws.protocol,
        send: (text) => connection.send(text),
        close: (code, reason) => connection.shut(code ?? 1000, reason ?? ''),
        onMessage: (receive) => {
          ws.on('message', (data, binary) => {
            const text = connection.receive(data, binary);
            if (text === null) return;
            receive(text).catch((thrown: unknown) => connection.end(this.#faultOf(thrown, origin.requestId)));
          });
        },
      },
      connection,
    );
    ws.on('close', (code, reason) => {
      this.#connections.delete(connection);
      connection.endSubscriptions();
      closed(code, String(reason)).catch((thrown: unknown) => this.#faultOf(thrown, origin.requestId));
      if (this.#connections.size === 0) this.#closing?.();
    });
  }

  #check(): void {
    this.#guard.endExpired();
    const now = performance.now();
    const pinging = now >= this.#pingAt;
    if (pinging) this.#pingAt = now + this.#limits.pingMs;
    for (const connection of this.#connections) {
      connection.startInterval();
      if (pinging) connection.ping();
    }
  }

  #faultOf(thrown: unknown, requestId: Uuid): Refusal {
    return thrown instanceof RefusalError
      ? thrown.refusal
      : refusalOf(thrown, this.#parts.services.log, { request_id: requestId, operation: 'graphql' });
  }
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
