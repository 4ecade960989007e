import { hash } from 'node:crypto';
import type { RequestListener } from 'node:http';
import { setTimeout as after } from 'node:timers/promises';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import { type SizeReporter, sumSizes } from '../../domain/collection-sizes.ts';
import type { Log } from '../../domain/log.ts';
import { type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import { refusalOf } from '../../operations/faults.ts';
import type { Caller, Services } from '../../operations/operation.ts';
import type { Perform } from '../../operations/perform.ts';
import { Aborted, readJson, TooSlow } from '../shared/body.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { applyCharge, type Exchange, exchangeOf, send, sendRefusal } from '../shared/exchange.ts';
import { credentialIn } from '../shared/http.ts';
import type { Identity } from '../shared/identity.ts';
import { METADATA_PATH } from '../shared/protected-resource.ts';
import type { RateLimiter } from '../shared/rate-limiter.ts';
import { sendRequestTimeout } from '../shared/upgrade.ts';
import { makeHostCheck } from './host-check.ts';
import {
  isRateLimited,
  type ParsedPost,
  parseMessages,
  protocolVersionRefusal,
  supportsStructuredContent,
} from './json-rpc-messages.ts';
import { LegacySseTransport, MESSAGES_PATH } from './legacy-sse-transport.ts';
import { type McpServerParts, makeMcpServer } from './mcp-server.ts';
import type { McpTransport, RequestContext } from './mcp-transport.ts';
import * as plain from './sanitizer.ts';
import { defaultSessionLimits, makeSessionRegistry, type Session, type SessionLimits } from './session-registry.ts';
import { StreamableHttpTransport } from './streamable-http-transport.ts';
import { makeSubscriptions, type Subscriber } from './subscriptions.ts';

export interface McpParts {
  services: Pick<Services, 'actors' | 'clock' | 'apiKeys' | 'log' | 'newId' | 'revocations' | 'users'>;
  perform: Perform;
  identity: Pick<Identity, 'authenticate'>;
  gate: RateLimiter;
  addressOf: AddressOf;
  /** How clients reach the service, without a slash at the end. */
  publicUrl(): string;
  /** The address that it listens on. */
  host: string;
  /** Told of each answer. */
  observe(route: string, method: string, status: number, milliseconds: number): void;
  log: Log;
  limits?: Partial<SessionLimits>;
}

/** MCP at `/mcp` (contract §6): Streamable HTTP, and HTTP+SSE for older clients. */
export interface McpEdge extends SizeReporter {
  listener: RequestListener;
  counts(): { sessions: number };
  /** Lets what is under way be answered, and ends the rest. */
  close(): Promise<void>;
}

/** How long what is under way is waited for at the end of the process. */
const DRAIN_MS = 3_000;

const UNKNOWN_PATH: Refusal = { code: 'NOT_FOUND', detail: 'There is nothing at this path.' };
const UNKNOWN_SESSION: Refusal = { code: 'NOT_FOUND', detail: 'There is no such session: begin with initialize.' };
const DRAINING: Refusal = { code: 'OVERLOADED', detail: 'This process is shutting down.', retryAfterS: 1 };
const TOO_MANY_SESSIONS: Refusal = {
  code: 'OVERLOADED',
  detail: 'There are too many sessions; try again later.',
  retryAfterS: 60,
};

/** A request of whom the identity check knows. */
interface AuthenticatedExchange extends Exchange {
  caller: Caller;
  address: string;
  credential: string;
}

export function makeMcpEdge(parts: McpParts): McpEdge {
  const { services, perform, identity, gate, addressOf, publicUrl, log } = parts;
  const { newId, clock } = services;
  const limits = { ...defaultSessionLimits, ...parts.limits };
  const hosts = makeHostCheck(parts);
  const stopping = new AbortController();
  const subscriptions = makeSubscriptions(services.actors);
  const serverParts: McpServerParts = {
    ...{ perform, services, subscriptions, log },
    validator: new AjvJsonSchemaValidator(),
    stopping: stopping.signal,
  };
  /** Of requests without a session: all that each needs comes with it, so that one wire does for all. */
  const passing = new StreamableHttpTransport({ session: false });
  const connected = makeMcpServer(serverParts, passing, null).connect(passing);
  const sessions = makeSessionRegistry(services, {
    ...{ subscriptions, limits, passing },
    serverFor: (wire: McpTransport, follower: Subscriber) => makeMcpServer(serverParts, wire, follower),
    isIdle: (wire) => wire instanceof StreamableHttpTransport && !wire.hasEventStream && wire.pending === 0,
  });

  async function whoCalls(exchange: Exchange, address: string): Promise<Outcome<Caller>> {
    const { request, requestId } = exchange;
    const found = await identity.authenticate(credentialIn(request.headers), { via: 'mcp', requestId, address });
    if (!found.ok || found.value.user !== null) return found;
    return refuse('UNAUTHENTICATED', 'A valid bearer token or API key is needed.');
  }

  async function serve(exchange: Exchange): Promise<void> {
    const { request } = exchange;
    const barred = hosts.refusalFor(request.headers) ?? (stopping.signal.aborted ? DRAINING : null);
    if (barred !== null) return sendRefusal(exchange, barred);
    const address = addressOf(request);
    const credential = credentialIn(request.headers);
    if (credential === null && !applyCharge(exchange, gate.chargeAnonymous(address))) return;
    const found = await whoCalls(exchange, address);
    if (!found.ok) {
      if (credential !== null) exchange.rateLimitHeaders = gate.signInRateHeaders(address);
      return sendRefusal(exchange, found.refusal, [], `, resource_metadata="${publicUrl()}${METADATA_PATH}"`);
    }
    const known: AuthenticatedExchange = { ...exchange, caller: found.value, address, credential: credential ?? '' };
    const path = exchange.path.replace(/\/$/, '');
    if (path === '/mcp') return atMcp(known);
    if (path !== MESSAGES_PATH) return sendRefusal(known, UNKNOWN_PATH);
    if (known.method !== 'POST') return refuseMethod(known, 'POST');
    return legacyPost(known);
  }

  async function atMcp(known: AuthenticatedExchange): Promise<void> {
    const { headers } = known.request;
    const id = headers['mcp-session-id'];
    switch (known.method) {
      case 'POST':
        return post(known, typeof id === 'string' ? id : null);
      case 'GET':
        if (id === undefined && headers['mcp-protocol-version'] === undefined) return openLegacy(known);
        return listen(known, typeof id === 'string' ? id : null);
      case 'DELETE': {
        const session = typeof id === 'string' ? sessions.find(id, sessionOwnerOf(known.caller)) : null;
        if (session === null) return sendRefusal(known, UNKNOWN_SESSION);
        sessions.end(session);
        return send(known, 204, null);
      }
      default:
        return refuseMethod(known, 'GET, POST, DELETE');
    }
  }

  async function messagesIn(known: AuthenticatedExchange): Promise<ParsedPost | null> {
    const body = await readJson(known.request);
    const posted = body.ok ? parseMessages(body.value) : body;
    if (posted.ok) return posted.value;
    sendRefusal(known, posted.refusal);
    return null;
  }

  async function post(known: AuthenticatedExchange, id: string | null): Promise<void> {
    const posted = await messagesIn(known);
    if (posted === null) return;
    const { isInitialize, messages, isBatch } = posted;
    const fault = isInitialize ? null : protocolVersionRefusal(known.request.headers);
    if (fault !== null) return sendRefusal(known, fault);
    if (isInitialize && id !== null) return sendRefusal(known, INITIALIZE_IN_SESSION);
    const wire = isInitialize ? await opened(known) : id === null ? passing : back(known, id);
    if (wire === null) return;
    await connected;
    if (wire !== passing && hasPendingId(wire, messages)) return sendRefusal(known, DUPLICATE_REQUEST_ID);
    const bearings = await charged(known, messages);
    // Its credential may have ended meanwhile.
    if (wire.closed) return sendRefusal(known, UNKNOWN_SESSION);
    wire.post(known, messages, bearings, isBatch);
  }

  async function opened(known: AuthenticatedExchange): Promise<StreamableHttpTransport | null> {
    const wire = new StreamableHttpTransport({ session: true });
    const session = sessions.open({
      owner: sessionOwnerOf(known.caller),
      caller: known.caller,
      wire: wire as SessionTransport,
    });
    if (session === null) {
      sendRefusal(known, TOO_MANY_SESSIONS);
      return null;
    }
    await session.server.connect(wire);
    return wire;
  }

  function back(known: AuthenticatedExchange, id: string): StreamableHttpTransport | null {
    const session = sessions.find(id, sessionOwnerOf(known.caller));
    if (session === null || !(session.transport instanceof StreamableHttpTransport)) {
      sendRefusal(known, UNKNOWN_SESSION);
      return null;
    }
    used(session, known.caller);
    return session.transport;
  }

  function used(session: Session, caller: Caller): void {
    session.usedAt = clock.now();
    // From now on the session ends with this credential: who listens with another one comes back with one that is good.
    if (session.transport instanceof StreamableHttpTransport && credentialOf(caller) !== credentialOf(session.caller)) {
      session.transport.closeEventStream();
    }
    session.caller = caller;
  }

  /** What each message came with; the rate of those that count is in the answer's headers. */
  async function charged(known: AuthenticatedExchange, messages: readonly JSONRPCMessage[]): Promise<RequestContext[]> {
    const bearings: RequestContext[] = [];
    const structure = supportsStructuredContent(known.request.headers);
    for (const message of messages) {
      const charge = isRateLimited(message) ? await gate.chargeCaller(known.caller, known.address) : null;
      if (charge !== null) known.rateLimitHeaders = charge.headers;
      bearings.push({ caller: known.caller, refusal: charge?.refusal ?? null, supportsStructuredContent: structure });
    }
    return bearings;
  }

  async function listen(known: AuthenticatedExchange, id: string | null): Promise<void> {
    if (id === null)
      return refuseMethod(known, 'POST', 'Begin with initialize: there is nothing to hear without a session.');
    const fault = protocolVersionRefusal(known.request.headers);
    if (fault !== null) return sendRefusal(known, fault);
    const wire = back(known, id);
    if (wire === null) return;
    wire.openEventStream(known);
    subscriptions.flush();
  }

  async function openLegacy(known: AuthenticatedExchange): Promise<void> {
    // It ends with its connection; so nobody is sent away whose session cannot be opened.
    if (!sessions.hasCapacity(known.caller.principal.id)) return sendRefusal(known, TOO_MANY_SESSIONS);
    // Who went away while they were looked at will not go away again.
    if (known.response.destroyed) return;
    const wire = new LegacySseTransport(known, pathOf(publicUrl()));
    const session = sessions.open({ owner: legacySessionOwnerOf(known), caller: known.caller, wire });
    if (session === null) return wire.close();
    await session.server.connect(wire);
  }

  async function legacyPost(known: AuthenticatedExchange): Promise<void> {
    const id = new URLSearchParams(known.query).get('session_id') ?? '';
    const session = sessions.find(id, legacySessionOwnerOf(known));
    if (session === null || !(session.transport instanceof LegacySseTransport))
      return sendRefusal(known, UNKNOWN_SESSION);
    const posted = await messagesIn(known);
    if (posted === null) return;
    used(session, known.caller);
    if (hasPendingId(session.transport, posted.messages)) return sendRefusal(known, DUPLICATE_REQUEST_ID);
    const bearings = await charged(known, posted.messages);
    // Its stream may have ended meanwhile.
    if (session.transport.closed) return sendRefusal(known, UNKNOWN_SESSION);
    send(known, 202, { type: 'text/plain; charset=utf-8', body: 'Accepted' });
    session.transport.post(posted.messages, bearings);
  }

  return {
    listener(request, response) {
      const started = performance.now();
      const exchange = exchangeOf(request, response, { newId, isLast: () => stopping.signal.aborted });
      let observed = false;
      const observe = (): void => {
        if (!observed) parts.observe('/mcp', exchange.method, response.statusCode, performance.now() - started);
        observed = true;
      };
      response.on('close', observe);
      serve(exchange)
        .then(() => {
          // A stream lasts as long as somebody listens: what took time was the opening.
          if (exchange.method === 'GET') observe();
        })
        .catch((thrown: unknown) => {
          if (thrown instanceof Aborted) return;
          if (thrown instanceof TooSlow) return sendRequestTimeout(request, newId);
          sendRefusal(exchange, refusalOf(thrown, log, { request_id: exchange.requestId, operation: 'mcp' }));
        });
    },
    sizes: () =>
      sumSizes([sessions, subscriptions, plain, passing, ...[...sessions.all()].map(({ transport }) => transport)]),
    counts: () => ({ sessions: sessions.count() }),
    async close() {
      stopping.abort();
      const until = performance.now() + DRAIN_MS;
      const drained = async (wire: McpTransport): Promise<void> => {
        while (wire.pending > 0 && performance.now() < until) await after(20, undefined, { ref: false });
        await wire.close();
      };
      for (const { server } of sessions.all()) server.sendLoggingMessage(SHUTDOWN_NOTICE).catch(() => {}); // nobody reads
      await Promise.all([...[...sessions.all()].map(({ transport }) => transport), passing].map(drained));
      sessions.close();
      subscriptions.close();
    },
  };
}

type SessionTransport = McpTransport & { sessionId: string };

const SHUTDOWN_NOTICE = {
  level: 'notice' as const,
  logger: 'twinkeep',
  data: 'The service is going down. Connect again in a moment; plan and command ids stay good.',
};

const INITIALIZE_IN_SESSION: Refusal = {
  code: 'VALIDATION_FAILED',
  detail: 'initialize begins a session, and names none.',
};
const DUPLICATE_REQUEST_ID: Refusal = {
  code: 'VALIDATION_FAILED',
  detail: 'A request with this id is under way in this session.',
};

const hasPendingId = (
  wire: StreamableHttpTransport | LegacySseTransport,
  messages: readonly JSONRPCMessage[],
): boolean => messages.some((message) => 'method' in message && 'id' in message && wire.isPending(message.id));

/** Where a proxy has put the service, without a slash at the end. */
const pathOf = (url: string): string => new URL(url).pathname.replace(/\/$/, '');

/** A user of a tenant may come back with a fresh token; a key is itself. */
const sessionOwnerOf = ({ principal, tenantId }: Caller): string =>
  `${principal.id} ${tenantId} ${principal.key ?? ''}`;

const credentialOf = ({ principal, token }: Caller): string | undefined => token?.id ?? principal.key;

/** Only the credential that opened it may use it (contract §6). */
const legacySessionOwnerOf = ({ caller, credential }: AuthenticatedExchange): string =>
  `${sessionOwnerOf(caller)} ${hash('sha256', credential)}`;

function refuseMethod(exchange: Exchange, allow: string, detail = `This path takes ${allow}.`): void {
  const headers = ['Allow', `${allow}, OPTIONS`];
  if (exchange.method === 'OPTIONS') send(exchange, 204, null, headers);
  else sendRefusal(exchange, { code: 'METHOD_NOT_ALLOWED', detail }, headers);
}
