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
import { ownHosts } from './hosts.ts';
import { LegacyWire, MESSAGES_PATH } from './legacy.ts';
import { counts, knowsStructure, type Posted, readMessages, revisionFault } from './messages.ts';
import * as plain from './plain.ts';
import { makeServer, type ServerParts } from './server.ts';
import { defaultLimits, keepSessions, type Session, type SessionLimits } from './sessions.ts';
import { StreamableWire } from './streamable.ts';
import { type Follower, followActors } from './subscriptions.ts';
import type { Bearing, Wire } from './wire.ts';

export interface McpParts {
  services: Pick<Services, 'actors' | 'clock' | 'keys' | 'log' | 'newId' | 'revocations' | 'users'>;
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

const NOWHERE: Refusal = { code: 'NOT_FOUND', detail: 'There is nothing at this path.' };
const NO_SESSION: Refusal = { code: 'NOT_FOUND', detail: 'There is no such session: begin with initialize.' };
const DRAINING: Refusal = { code: 'OVERLOADED', detail: 'This process is shutting down.', retryAfterS: 1 };
const FULL: Refusal = { code: 'OVERLOADED', detail: 'There are too many sessions; try again later.', retryAfterS: 60 };

/** A request of whom the identity check knows. */
interface Known extends Exchange {
  caller: Caller;
  address: string;
  credential: string;
}

export function makeMcp(parts: McpParts): McpEdge {
  const { services, perform, identity, gate, addressOf, publicUrl, log } = parts;
  const { newId, clock } = services;
  const limits = { ...defaultLimits, ...parts.limits };
  const hosts = ownHosts(parts);
  const stopping = new AbortController();
  const subscriptions = followActors(services.actors);
  const serverParts: ServerParts = {
    ...{ perform, services, subscriptions, log },
    validator: new AjvJsonSchemaValidator(),
    stopping: stopping.signal,
  };
  /** Of requests without a session: all that each needs comes with it, so that one wire does for all. */
  const passing = new StreamableWire({ session: false });
  const connected = makeServer(serverParts, passing, null).connect(passing);
  const sessions = keepSessions(services, {
    ...{ subscriptions, limits, passing },
    serverFor: (wire: Wire, follower: Follower) => makeServer(serverParts, wire, follower),
    isIdle: (wire) => wire instanceof StreamableWire && !wire.listening && wire.pending === 0,
  });

  async function whoCalls(exchange: Exchange, address: string): Promise<Outcome<Caller>> {
    const { request, requestId } = exchange;
    const found = await identity.authenticate(credentialIn(request.headers), { via: 'mcp', requestId, address });
    if (!found.ok || found.value.user !== null) return found;
    return refuse('UNAUTHENTICATED', 'A valid bearer token or API key is needed.');
  }

  async function serve(exchange: Exchange): Promise<void> {
    const { request } = exchange;
    const barred = hosts.bars(request.headers) ?? (stopping.signal.aborted ? DRAINING : null);
    if (barred !== null) return sendRefusal(exchange, barred);
    const address = addressOf(request);
    const credential = credentialIn(request.headers);
    if (credential === null && !applyCharge(exchange, gate.chargeAnonymous(address))) return;
    const found = await whoCalls(exchange, address);
    if (!found.ok) {
      if (credential !== null) exchange.rateLimitHeaders = gate.signInRateHeaders(address);
      return sendRefusal(exchange, found.refusal, [], `, resource_metadata="${publicUrl()}${METADATA_PATH}"`);
    }
    const known: Known = { ...exchange, caller: found.value, address, credential: credential ?? '' };
    const path = exchange.path.replace(/\/$/, '');
    if (path === '/mcp') return atMcp(known);
    if (path !== MESSAGES_PATH) return sendRefusal(known, NOWHERE);
    if (known.method !== 'POST') return refuseMethod(known, 'POST');
    return legacyPost(known);
  }

  async function atMcp(known: Known): Promise<void> {
    const { headers } = known.request;
    const id = headers['mcp-session-id'];
    switch (known.method) {
      case 'POST':
        return post(known, typeof id === 'string' ? id : null);
      case 'GET':
        if (id === undefined && headers['mcp-protocol-version'] === undefined) return openLegacy(known);
        return listen(known, typeof id === 'string' ? id : null);
      case 'DELETE': {
        const session = typeof id === 'string' ? sessions.find(id, ownerOf(known.caller)) : null;
        if (session === null) return sendRefusal(known, NO_SESSION);
        sessions.end(session);
        return send(known, 204, null);
      }
      default:
        return refuseMethod(known, 'GET, POST, DELETE');
    }
  }

  async function messagesIn(known: Known): Promise<Posted | null> {
    const body = await readJson(known.request);
    const posted = body.ok ? readMessages(body.value) : body;
    if (posted.ok) return posted.value;
    sendRefusal(known, posted.refusal);
    return null;
  }

  async function post(known: Known, id: string | null): Promise<void> {
    const posted = await messagesIn(known);
    if (posted === null) return;
    const { initializes, messages, batch } = posted;
    const fault = initializes ? null : revisionFault(known.request.headers);
    if (fault !== null) return sendRefusal(known, fault);
    if (initializes && id !== null) return sendRefusal(known, ALREADY);
    const wire = initializes ? await opened(known) : id === null ? passing : back(known, id);
    if (wire === null) return;
    await connected;
    if (wire !== passing && taken(wire, messages)) return sendRefusal(known, TAKEN);
    const bearings = await charged(known, messages);
    // Its credential may have ended meanwhile.
    if (wire.closed) return sendRefusal(known, NO_SESSION);
    wire.post(known, messages, bearings, batch);
  }

  async function opened(known: Known): Promise<StreamableWire | null> {
    const wire = new StreamableWire({ session: true });
    const session = sessions.open({ owner: ownerOf(known.caller), caller: known.caller, wire: wire as Named });
    if (session === null) {
      sendRefusal(known, FULL);
      return null;
    }
    await session.server.connect(wire);
    return wire;
  }

  function back(known: Known, id: string): StreamableWire | null {
    const session = sessions.find(id, ownerOf(known.caller));
    if (session === null || !(session.wire instanceof StreamableWire)) {
      sendRefusal(known, NO_SESSION);
      return null;
    }
    used(session, known.caller);
    return session.wire;
  }

  function used(session: Session, caller: Caller): void {
    session.usedAt = clock.now();
    // From now on the session ends with this credential: who listens with another one comes back with one that is good.
    if (session.wire instanceof StreamableWire && credentialOf(caller) !== credentialOf(session.caller)) {
      session.wire.deafen();
    }
    session.caller = caller;
  }

  /** What each message came with; the rate of those that count is in the answer's headers. */
  async function charged(known: Known, messages: readonly JSONRPCMessage[]): Promise<Bearing[]> {
    const bearings: Bearing[] = [];
    const structure = knowsStructure(known.request.headers);
    for (const message of messages) {
      const charge = counts(message) ? await gate.chargeCaller(known.caller, known.address) : null;
      if (charge !== null) known.rateLimitHeaders = charge.headers;
      bearings.push({ caller: known.caller, refusal: charge?.refusal ?? null, structure });
    }
    return bearings;
  }

  async function listen(known: Known, id: string | null): Promise<void> {
    if (id === null)
      return refuseMethod(known, 'POST', 'Begin with initialize: there is nothing to hear without a session.');
    const fault = revisionFault(known.request.headers);
    if (fault !== null) return sendRefusal(known, fault);
    const wire = back(known, id);
    if (wire === null) return;
    wire.listen(known);
    subscriptions.flush();
  }

  async function openLegacy(known: Known): Promise<void> {
    // It ends with its connection; so nobody is sent away whose session cannot be opened.
    if (!sessions.hasRoom(known.caller.principal.id)) return sendRefusal(known, FULL);
    // Who went away while they were looked at will not go away again.
    if (known.response.destroyed) return;
    const wire = new LegacyWire(known, pathOf(publicUrl()));
    const session = sessions.open({ owner: legacyOwner(known), caller: known.caller, wire });
    if (session === null) return wire.close();
    await session.server.connect(wire);
  }

  async function legacyPost(known: Known): Promise<void> {
    const id = new URLSearchParams(known.query).get('session_id') ?? '';
    const session = sessions.find(id, legacyOwner(known));
    if (session === null || !(session.wire instanceof LegacyWire)) return sendRefusal(known, NO_SESSION);
    const posted = await messagesIn(known);
    if (posted === null) return;
    used(session, known.caller);
    if (taken(session.wire, posted.messages)) return sendRefusal(known, TAKEN);
    const bearings = await charged(known, posted.messages);
    // Its stream may have ended meanwhile.
    if (session.wire.closed) return sendRefusal(known, NO_SESSION);
    send(known, 202, { type: 'text/plain; charset=utf-8', body: 'Accepted' });
    session.wire.post(posted.messages, bearings);
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
    sizes: () => sumSizes([sessions, subscriptions, plain, passing, ...[...sessions.all()].map(({ wire }) => wire)]),
    counts: () => ({ sessions: sessions.count() }),
    async close() {
      stopping.abort();
      const until = performance.now() + DRAIN_MS;
      const drained = async (wire: Wire): Promise<void> => {
        while (wire.pending > 0 && performance.now() < until) await after(20, undefined, { ref: false });
        await wire.close();
      };
      for (const { server } of sessions.all()) server.sendLoggingMessage(GOING).catch(() => {}); // nobody reads
      await Promise.all([...[...sessions.all()].map(({ wire }) => wire), passing].map(drained));
      sessions.close();
      subscriptions.close();
    },
  };
}

type Named = Wire & { sessionId: string };

const GOING = {
  level: 'notice' as const,
  logger: 'twinkeep',
  data: 'The service is going down. Connect again in a moment; plan and command ids stay good.',
};

const ALREADY: Refusal = { code: 'VALIDATION_FAILED', detail: 'initialize begins a session, and names none.' };
const TAKEN: Refusal = { code: 'VALIDATION_FAILED', detail: 'A request with this id is under way in this session.' };

const taken = (wire: StreamableWire | LegacyWire, messages: readonly JSONRPCMessage[]): boolean =>
  messages.some((message) => 'method' in message && 'id' in message && wire.isPending(message.id));

/** Where a proxy has put the service, without a slash at the end. */
const pathOf = (url: string): string => new URL(url).pathname.replace(/\/$/, '');

/** A user of a tenant may come back with a fresh token; a key is itself. */
const ownerOf = ({ principal, tenantId }: Caller): string => `${principal.id} ${tenantId} ${principal.key ?? ''}`;

const credentialOf = ({ principal, token }: Caller): string | undefined => token?.id ?? principal.key;

/** Only the credential that opened it may use it (contract §6). */
const legacyOwner = ({ caller, credential }: Known): string => `${ownerOf(caller)} ${hash('sha256', credential)}`;

function refuseMethod(exchange: Exchange, allow: string, detail = `This path takes ${allow}.`): void {
  const headers = ['Allow', `${allow}, OPTIONS`];
  if (exchange.method === 'OPTIONS') send(exchange, 204, null, headers);
  else sendRefusal(exchange, { code: 'METHOD_NOT_ALLOWED', detail }, headers);
}
