import { hash } from 'node:crypto';
import type { IncomingHttpHeaders, RequestListener } from 'node:http';
import { setTimeout as after } from 'node:timers/promises';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import { type CollectionSizes, type SizeReporter, sumSizes } from '../../domain/collection-sizes.ts';
import type { Log } from '../../domain/log.ts';
import { type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import type { Caller, Services } from '../../operations/operation.ts';
import type { Perform } from '../../operations/perform.ts';
import type { Authenticator } from '../shared/authenticator.ts';
import { Aborted, readJson, TooSlow } from '../shared/body.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { credentialIn, DRAINING } from '../shared/http.ts';
import { applyCharge, type HttpExchange, httpExchangeOf, send, sendRefusal } from '../shared/http-exchange.ts';
import { METADATA_PATH } from '../shared/protected-resource.ts';
import type { RequestRateLimiter } from '../shared/rate-limiter.ts';
import { sendRequestTimeout } from '../shared/upgrade.ts';
import { type HostCheck, makeHostCheck } from './host-check.ts';
import {
  isRateLimited,
  type ParsedPost,
  parseMessages,
  protocolVersionRefusal,
  supportsStructuredContent,
} from './json-rpc-messages.ts';
import { LegacySseTransport, MESSAGES_PATH } from './legacy-sse-transport.ts';
import { McpServer, type McpServerParts } from './mcp-server.ts';
import type { McpTransport, RequestContext } from './mcp-transport.ts';
import * as sanitizer from './sanitizer.ts';
import {
  defaultSessionLimits,
  type McpSession,
  type SessionLimits,
  SessionRegistry,
  type SessionTransport,
} from './session-registry.ts';
import { StreamableHttpTransport } from './streamable-http-transport.ts';
import { Subscriptions } from './subscriptions.ts';

export interface McpParts {
  services: Pick<
    Services,
    | 'actors'
    | 'agentTokens'
    | 'clock'
    | 'apiKeys'
    | 'invalidations'
    | 'log'
    | 'newId'
    | 'revocations'
    | 'store'
    | 'users'
  >;
  perform: Perform;
  identity: Pick<Authenticator, 'authenticate'>;
  rateLimiter: RequestRateLimiter;
  addressOf: AddressOf;
  /** How clients reach the service, without a slash at the end. */
  publicUrl(): string;
  /** The address that it listens on. */
  host: string;
  /** Called for each answer, for metrics. */
  observe(route: string, method: string, status: number, milliseconds: number): void;
  log: Log;
  limits?: Partial<SessionLimits>;
}

/** Opens the HTTP+SSE transport whatever the client sends. */
const SSE_PATH = '/sse';

/** Time for requests in progress at shutdown. */
const DRAIN_MS = 3_000;

const UNKNOWN_PATH: Refusal = { code: 'NOT_FOUND', detail: 'There is nothing at this path.' };
const UNKNOWN_SESSION: Refusal = { code: 'NOT_FOUND', detail: 'Session not found. Start a new one with initialize.' };
const TOO_MANY_SESSIONS: Refusal = {
  code: 'OVERLOADED',
  detail: 'This process has as many sessions as it can have. Try again later.',
  retryAfterS: 60,
};

interface AuthenticatedExchange extends HttpExchange {
  caller: Caller;
  address: string;
  credential: string;
}

/** MCP at `/mcp` (contract §6): Streamable HTTP, and HTTP+SSE for older clients, also at `/sse`. */
export class McpEdge implements SizeReporter {
  readonly #parts: McpParts;
  readonly #hosts: HostCheck;
  readonly #stopping = new AbortController();
  readonly #subscriptions: Subscriptions;
  readonly #sessions: SessionRegistry;
  /** Serves all requests without a session: each carries everything that it needs. */
  readonly #statelessTransport = new StreamableHttpTransport({ session: false });
  /** Resolves when the server of the stateless transport is connected. */
  readonly #connected: Promise<void>;

  constructor(parts: McpParts) {
    const { services, perform, log } = parts;
    this.#parts = parts;
    this.#hosts = makeHostCheck(parts);
    this.#subscriptions = new Subscriptions(services.actors);
    const serverParts: McpServerParts = {
      ...{ perform, services, subscriptions: this.#subscriptions, log },
      validator: new AjvJsonSchemaValidator(),
      stopping: this.#stopping.signal,
    };
    const statelessTransport = this.#statelessTransport;
    this.#connected = new McpServer(serverParts, statelessTransport, null).protocol.connect(statelessTransport);
    this.#sessions = new SessionRegistry(services, {
      ...{ subscriptions: this.#subscriptions, statelessTransport },
      limits: { ...defaultSessionLimits, ...parts.limits },
      makeServer: (transport, subscriber) => new McpServer(serverParts, transport, subscriber).protocol,
      isIdle: (transport) =>
        transport instanceof StreamableHttpTransport && !transport.hasEventStream && transport.pending === 0,
    });
  }

  readonly listener: RequestListener = (request, response) => {
    const started = performance.now();
    const exchange = httpExchangeOf(request, response, {
      newId: this.#parts.services.newId,
      isLast: () => this.#stopping.signal.aborted,
    });
    let observed = false;
    const observe = (): void => {
      if (!observed) this.#parts.observe('/mcp', exchange.method, response.statusCode, performance.now() - started);
      observed = true;
    };
    response.on('close', observe);
    this.#serve(exchange)
      .then(() => {
        // An event stream stays open; only the time to open it is measured.
        if (exchange.method === 'GET') observe();
      })
      .catch((thrown: unknown) => {
        if (thrown instanceof Aborted) return;
        if (thrown instanceof TooSlow) return sendRequestTimeout(request, this.#parts.services.newId);
        sendRefusal(exchange, refusalOf(thrown, this.#parts.log, { request_id: exchange.requestId, operation: 'mcp' }));
      });
  };

  sizes(): CollectionSizes {
    return sumSizes([
      this.#sessions,
      this.#subscriptions,
      sanitizer,
      this.#statelessTransport,
      ...[...this.#sessions.all()].map(({ transport }) => transport),
    ]);
  }

  counts(): { sessions: number } {
    return { sessions: this.#sessions.count() };
  }

  /** Drains requests in progress for at most 3 s, then closes all sessions. */
  async close(): Promise<void> {
    this.#stopping.abort();
    const until = performance.now() + DRAIN_MS;
    const drained = async (transport: McpTransport): Promise<void> => {
      while (transport.pending > 0 && performance.now() < until) await after(20, undefined, { ref: false });
      await transport.close();
    };
    for (const { server } of this.#sessions.all()) server.sendLoggingMessage(SHUTDOWN_NOTICE).catch(() => {}); // no open stream
    await Promise.all(
      [...[...this.#sessions.all()].map(({ transport }) => transport), this.#statelessTransport].map(drained),
    );
    this.#sessions.close();
    this.#subscriptions.close();
  }

  /** Ends the sessions of the tenants for which `matches` returns true: their clients initialize new ones. */
  endTenants(matches: (tenantId: Uuid) => boolean): void {
    this.#sessions.endTenants(matches);
  }

  async #authenticate(exchange: HttpExchange, address: string): Promise<Outcome<Caller>> {
    const { request, requestId } = exchange;
    const found = await this.#parts.identity.authenticate(credentialIn(request.headers), {
      via: 'mcp',
      requestId,
      address,
      client: request.headers['user-agent'],
    });
    if (!found.ok || found.value.user !== null) return found;
    return refuse('UNAUTHENTICATED', 'A valid bearer token or API key is needed.');
  }

  async #serve(exchange: HttpExchange): Promise<void> {
    const { request } = exchange;
    const refusal = this.#hosts.refusalFor(request.headers) ?? (this.#stopping.signal.aborted ? DRAINING : null);
    if (refusal !== null) return sendRefusal(exchange, refusal);
    const address = this.#parts.addressOf(request);
    const credential = credentialIn(request.headers);
    if (credential === null && !applyCharge(exchange, this.#parts.rateLimiter.chargeAnonymous(address))) return;
    const found = await this.#authenticate(exchange, address);
    if (!found.ok) {
      if (credential !== null) exchange.rateLimitHeaders = this.#parts.rateLimiter.signInRateHeaders(address);
      return sendRefusal(
        exchange,
        found.refusal,
        [],
        `, resource_metadata="${this.#parts.publicUrl()}${METADATA_PATH}"`,
      );
    }
    const authenticated: AuthenticatedExchange = {
      ...exchange,
      caller: found.value,
      address,
      credential: credential ?? '',
    };
    const path = exchange.path.replace(/\/$/, '');
    if (path === '/mcp') return this.#serveMcp(authenticated);
    if (path === SSE_PATH) return this.#serveSse(authenticated);
    if (path !== MESSAGES_PATH) return sendRefusal(authenticated, UNKNOWN_PATH);
    if (authenticated.method !== 'POST') return refuseMethod(authenticated, 'POST');
    return this.#legacyPost(authenticated);
  }

  async #serveMcp(authenticated: AuthenticatedExchange): Promise<void> {
    const { headers } = authenticated.request;
    const id = headers['mcp-session-id'];
    switch (authenticated.method) {
      case 'POST':
        return this.#post(authenticated, typeof id === 'string' ? id : null);
      case 'GET':
        if (id === undefined && wantsLegacyStream(headers)) return this.#openLegacy(authenticated);
        return this.#openEventStream(authenticated, typeof id === 'string' ? id : null);
      case 'DELETE': {
        const session = typeof id === 'string' ? this.#sessions.find(id, sessionOwnerOf(authenticated.caller)) : null;
        if (session === null) return sendRefusal(authenticated, UNKNOWN_SESSION);
        this.#sessions.end(session);
        return send(authenticated, 204, null);
      }
      default:
        return refuseMethod(authenticated, 'GET, POST, DELETE');
    }
  }

  async #serveSse(authenticated: AuthenticatedExchange): Promise<void> {
    if (authenticated.method !== 'GET') return refuseMethod(authenticated, 'GET');
    return this.#openLegacy(authenticated);
  }

  async #readMessages(authenticated: AuthenticatedExchange): Promise<ParsedPost | null> {
    const body = await readJson(authenticated.request);
    const posted = body.ok ? parseMessages(body.value) : body;
    if (posted.ok) return posted.value;
    sendRefusal(authenticated, posted.refusal);
    return null;
  }

  async #post(authenticated: AuthenticatedExchange, id: string | null): Promise<void> {
    const posted = await this.#readMessages(authenticated);
    if (posted === null) return;
    const { isInitialize, messages, isBatch } = posted;
    const refusal = isInitialize ? null : protocolVersionRefusal(authenticated.request.headers);
    if (refusal !== null) return sendRefusal(authenticated, refusal);
    if (isInitialize && id !== null) return sendRefusal(authenticated, INITIALIZE_IN_SESSION);
    const opening = isInitialize ? await this.#chargeMessages(authenticated, messages) : null;
    const overRate = opening?.[0]?.refusal ?? null;
    if (overRate !== null) return sendRefusal(authenticated, overRate);
    const transport = isInitialize
      ? await this.#openSession(authenticated)
      : id === null
        ? this.#statelessTransport
        : this.#findSession(authenticated, id);
    if (transport === null) return;
    await this.#connected;
    if (transport !== this.#statelessTransport && hasPendingId(transport, messages))
      return sendRefusal(authenticated, DUPLICATE_REQUEST_ID);
    const contexts = opening ?? (await this.#chargeMessages(authenticated, messages));
    // The credential may have been revoked in between.
    if (transport.closed) return sendRefusal(authenticated, UNKNOWN_SESSION);
    transport.post(authenticated, messages, contexts, isBatch);
  }

  async #openSession(authenticated: AuthenticatedExchange): Promise<StreamableHttpTransport | null> {
    const transport = new StreamableHttpTransport({ session: true });
    const session = this.#sessions.open({
      owner: sessionOwnerOf(authenticated.caller),
      caller: authenticated.caller,
      transport: transport as SessionTransport,
    });
    if (session === null) {
      sendRefusal(authenticated, TOO_MANY_SESSIONS);
      return null;
    }
    await session.server.connect(transport);
    return transport;
  }

  #findSession(authenticated: AuthenticatedExchange, id: string): StreamableHttpTransport | null {
    const session = this.#sessions.find(id, sessionOwnerOf(authenticated.caller));
    if (session === null || !(session.transport instanceof StreamableHttpTransport)) {
      sendRefusal(authenticated, UNKNOWN_SESSION);
      return null;
    }
    this.#touchSession(session, authenticated.caller);
    return session.transport;
  }

  #touchSession(session: McpSession, caller: Caller): void {
    session.usedAt = this.#parts.services.clock.now();
    // The session now ends with this credential. The client has to open its event stream again with it, and is no longer
    // notified about resources that this credential must not read.
    if (session.transport instanceof StreamableHttpTransport && credentialOf(caller) !== credentialOf(session.caller)) {
      session.transport.closeEventStream();
      this.#subscriptions.removeRefused(session.subscriber, caller);
    }
    session.caller = caller;
  }

  /** Charges the rate-limited messages and returns the request context of each message. */
  async #chargeMessages(
    authenticated: AuthenticatedExchange,
    messages: readonly JSONRPCMessage[],
  ): Promise<RequestContext[]> {
    const contexts: RequestContext[] = [];
    const structured = supportsStructuredContent(authenticated.request.headers);
    for (const message of messages) {
      const charge = isRateLimited(message)
        ? await this.#parts.rateLimiter.chargeCaller(authenticated.caller, authenticated.address)
        : null;
      if (charge !== null) authenticated.rateLimitHeaders = charge.headers;
      contexts.push({
        caller: authenticated.caller,
        refusal: charge?.refusal ?? null,
        supportsStructuredContent: structured,
      });
    }
    return contexts;
  }

  async #openEventStream(authenticated: AuthenticatedExchange, id: string | null): Promise<void> {
    if (id === null)
      return refuseMethod(authenticated, 'POST', 'An event stream needs a session. Start one with initialize.');
    const refusal = protocolVersionRefusal(authenticated.request.headers);
    if (refusal !== null) return sendRefusal(authenticated, refusal);
    const transport = this.#findSession(authenticated, id);
    if (transport === null) return;
    transport.openEventStream(authenticated);
    this.#subscriptions.flush();
  }

  async #openLegacy(authenticated: AuthenticatedExchange): Promise<void> {
    // Checked before the event stream is opened: after that the request cannot be refused any longer.
    if (!this.#sessions.hasCapacity(authenticated.caller)) return sendRefusal(authenticated, TOO_MANY_SESSIONS);
    const charge = await this.#parts.rateLimiter.chargeCaller(authenticated.caller, authenticated.address);
    if (charge.refusal !== null) return sendRefusal(authenticated, charge.refusal);
    // The client may have disconnected during authentication; then no further close event follows.
    if (authenticated.response.destroyed) return;
    const transport = new LegacySseTransport(authenticated, pathOf(this.#parts.publicUrl()));
    const session = this.#sessions.open({
      owner: legacySessionOwnerOf(authenticated),
      caller: authenticated.caller,
      transport,
    });
    if (session === null) return transport.close();
    await session.server.connect(transport);
  }

  async #legacyPost(authenticated: AuthenticatedExchange): Promise<void> {
    const id = new URLSearchParams(authenticated.query).get('session_id') ?? '';
    const session = this.#sessions.find(id, legacySessionOwnerOf(authenticated));
    if (session === null || !(session.transport instanceof LegacySseTransport))
      return sendRefusal(authenticated, UNKNOWN_SESSION);
    const posted = await this.#readMessages(authenticated);
    if (posted === null) return;
    this.#touchSession(session, authenticated.caller);
    if (hasPendingId(session.transport, posted.messages)) return sendRefusal(authenticated, DUPLICATE_REQUEST_ID);
    const contexts = await this.#chargeMessages(authenticated, posted.messages);
    // The event stream may have ended in between.
    if (session.transport.closed) return sendRefusal(authenticated, UNKNOWN_SESSION);
    send(authenticated, 202, { type: 'text/plain; charset=utf-8', body: 'Accepted' });
    session.transport.post(posted.messages, contexts);
  }
}

/** Some clients of HTTP+SSE send the revision that they prefer, and name the stream; others do not name it. */
const wantsLegacyStream = ({ accept, 'mcp-protocol-version': revision }: IncomingHttpHeaders): boolean =>
  revision === undefined || accept?.includes('text/event-stream') === true;

const SHUTDOWN_NOTICE = {
  level: 'notice' as const,
  logger: 'twinkeep',
  data: 'The service is shutting down. Reconnect in a few seconds; plan and command ids remain valid.',
};

const INITIALIZE_IN_SESSION: Refusal = {
  code: 'VALIDATION_FAILED',
  detail: 'initialize must not carry an Mcp-Session-Id.',
};
const DUPLICATE_REQUEST_ID: Refusal = {
  code: 'VALIDATION_FAILED',
  detail: 'A request with this id is already in progress in this session.',
};

const hasPendingId = (
  transport: StreamableHttpTransport | LegacySseTransport,
  messages: readonly JSONRPCMessage[],
): boolean => messages.some((message) => 'method' in message && 'id' in message && transport.isPending(message.id));

/** The path prefix of the public URL, without a slash at the end. */
const pathOf = (url: string): string => new URL(url).pathname.replace(/\/$/, '');

/** A session belongs to a user in a tenant, with any token, or to one API key. */
const sessionOwnerOf = ({ principal, tenantId }: Caller): string =>
  `${principal.id} ${tenantId} ${principal.key ?? ''}`;

const credentialOf = ({ principal, token }: Caller): string | undefined => token?.id ?? principal.key;

/** A legacy session may be used only with the credential that opened it (contract §6). */
const legacySessionOwnerOf = ({ caller, credential }: AuthenticatedExchange): string =>
  `${sessionOwnerOf(caller)} ${hash('sha256', credential)}`;

function refuseMethod(exchange: HttpExchange, allow: string, detail = `This path takes ${allow}.`): void {
  const headers = ['Allow', `${allow}, OPTIONS`];
  if (exchange.method === 'OPTIONS') send(exchange, 204, null, headers);
  else sendRefusal(exchange, { code: 'METHOD_NOT_ALLOWED', detail }, headers);
}
