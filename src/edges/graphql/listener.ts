import { type RequestListener, STATUS_CODES } from 'node:http';
import { type ExecutionArgs, execute, GraphQLError, type GraphQLSchema, OperationTypeNode } from 'graphql';
import { createHandler, type Response } from 'graphql-http';
import { checkJson } from '../../domain/json/strict.ts';
import type { Log } from '../../domain/log.ts';
import { done, type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import type { Caller } from '../../operations/operation.ts';
import type { Perform } from '../../operations/perform.ts';
import { Aborted, discardRest, TooSlow } from '../shared/body.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { DRAINING, idempotencyKeyIn } from '../shared/http.ts';
import type { HttpAuthenticator } from '../shared/http-authenticator.ts';
import {
  applyCharge,
  type Content,
  type HttpExchange,
  httpExchangeOf,
  send,
  sendRefusal,
} from '../shared/http-exchange.ts';
import { preferredType } from '../shared/media-types.ts';
import { RequestCost, type RequestRateLimiter } from '../shared/rate-limiter.ts';
import { admitRequest } from '../shared/request-admission.ts';
import { sendRequestTimeout } from '../shared/upgrade.ts';
import { introspectionRefusal, needsAuthentication } from './access.ts';
import { toClientError } from './client-errors.ts';
import type { InvalidDocument, PrepareDocument, PreparedDocument } from './documents.ts';
import { type GraphqlContext, makeGraphqlContext } from './graphql-context.ts';
import { type RequestParams, readRequestParams } from './request-params.ts';

export interface HttpParts {
  /** The schema that documents are validated against. */
  publicSchema(): GraphQLSchema;
  prepareDocument(...params: Parameters<PrepareDocument>): Promise<ReturnType<PrepareDocument>>;
  authenticator: HttpAuthenticator;
  rateLimiter: RequestRateLimiter;
  addressOf: AddressOf;
  perform: Perform;
  newId(): Uuid;
  log: Log;
  /** In production only administrators can read the schema and open the explorer. */
  production: boolean;
  /** The explorer's page. */
  explorer(): Promise<Content>;
  /** True from SIGTERM on: new requests are refused. */
  draining(): boolean;
  /** Called for each response. */
  observe(route: string, method: string, status: number, milliseconds: number): void;
}

export const PATH = '/graphql';
const ALLOW = 'GET, HEAD, POST, OPTIONS';
const NOT_FOUND: Refusal = { code: 'NOT_FOUND', detail: 'There is nothing at this path.' };

/** HTTP listener for queries and mutations (GraphQL over HTTP) and for the explorer's page. */
export function makeGraphqlListener(parts: HttpParts): RequestListener {
  const { log } = parts;
  const handler = new ExchangeHandler(parts);
  return (request, response) => {
    const exchange = httpExchangeOf(request, response, { newId: parts.newId, isLast: parts.draining });
    observeResponse(parts, exchange);
    route(parts, exchange, handler).catch((thrown: unknown) => {
      if (thrown instanceof Aborted) return;
      if (thrown instanceof TooSlow) return sendRequestTimeout(request, parts.newId);
      sendRefusal(exchange, refusalOf(thrown, log, { request_id: exchange.requestId }));
    });
  };
}

function observeResponse(
  { observe, log }: HttpParts,
  { request, response, method, path, requestId }: HttpExchange,
): void {
  const started = performance.now();
  response.on('finish', () => {
    const ms = performance.now() - started;
    observe(PATH, method, response.statusCode, ms);
    if (!request.complete) discardRest(request);
    log.debug({ request_id: requestId, method, path, status: response.statusCode, ms }, 'http: request completed');
  });
}

async function route(parts: HttpParts, exchange: HttpExchange, handler: ExchangeHandler): Promise<void> {
  const { method, path } = exchange;
  if (parts.draining()) return sendRefusal(exchange, DRAINING);
  const reads = method === 'GET' || method === 'HEAD';
  const isEndpoint = path === PATH || path === `${PATH}/`;
  if (!isEndpoint) {
    if (applyCharge(exchange, parts.rateLimiter.chargeAnonymous(parts.addressOf(exchange.request))))
      sendRefusal(exchange, NOT_FOUND);
    return;
  }
  if (!reads && method !== 'POST') {
    if (!applyCharge(exchange, parts.rateLimiter.chargeAnonymous(parts.addressOf(exchange.request)))) return;
    if (method === 'OPTIONS') return send(exchange, 204, null, ['Allow', ALLOW]);
    const refusal: Refusal = { code: 'METHOD_NOT_ALLOWED', detail: `This path accepts ${ALLOW}.` };
    return sendRefusal(exchange, refusal, ['Allow', ALLOW]);
  }
  const isExplorer = reads && wantsExplorer(exchange);
  if (isExplorer && !parts.production) {
    // Also with an expired session, for which the page has a field.
    if (!applyCharge(exchange, parts.rateLimiter.chargeAnonymous(parts.addressOf(exchange.request)))) return;
  } else {
    const caller = await admitRequest(exchange, parts, 'graphql');
    if (caller === null) return;
    if (!isExplorer) return handler.handle(exchange, caller);
    const refusal = introspectionRefusal(caller, parts.production);
    if (refusal !== null) return sendRefusal(exchange, refusal);
  }
  const page = await parts.explorer();
  send(exchange, page.status ?? 200, page);
}

/** A browser that opens the path without a query. */
const wantsExplorer = ({ query, request }: HttpExchange): boolean =>
  query === '' && /\btext\/html\b/.test(request.headers.accept ?? '');

/** Input of the GraphQL handler. */
interface HandlerInput {
  params: RequestParams;
  prepared: PreparedDocument | InvalidDocument;
  context: GraphqlContext;
  exchange: HttpExchange;
}

/** Answers GraphQL requests of admitted callers. */
class ExchangeHandler {
  readonly #parts: HttpParts;

  constructor(parts: HttpParts) {
    this.#parts = parts;
  }

  async handle(exchange: HttpExchange, caller: Caller): Promise<void> {
    const read = await readRequestParams(exchange);
    if (!read.ok) return sendRefusal(exchange, read.refusal);
    const params = read.value;
    const text = checkJson(params.query);
    if (!text.ok) return sendRefusal(exchange, refuse('VALIDATION_FAILED', `query: ${text.reason}`).refusal);
    const prepared = await this.#parts.prepareDocument(params);
    if ('operation' in prepared) {
      const refused = this.#documentRefusal(prepared, caller, exchange);
      if (refused !== null) return sendRefusal(exchange, refused.refusal, refused.headers);
    }
    const context = await this.#contextOf(prepared, caller, exchange);
    if (!context.ok) return sendRefusal(exchange, context.refusal);
    await this.#answer({ params, prepared, context: context.value, exchange });
  }

  #documentRefusal(
    prepared: PreparedDocument,
    caller: Caller,
    { method }: HttpExchange,
  ): { refusal: Refusal; headers: string[] } | null {
    const { publicSchema, production } = this.#parts;
    if (isMutation(prepared) && method !== 'POST') {
      return {
        refusal: { code: 'METHOD_NOT_ALLOWED', detail: 'Send mutations by POST.' },
        headers: ['Allow', 'POST'],
      };
    }
    if (caller.user === null && needsAuthentication(publicSchema(), prepared)) {
      const refusal: Refusal = { code: 'UNAUTHENTICATED', detail: 'A valid bearer token or API key is required.' };
      return { refusal, headers: [] };
    }
    const refusal = prepared.introspects ? introspectionRefusal(caller, production) : null;
    return refusal === null ? null : { refusal, headers: [] };
  }

  /** The context of the resolvers; a refusal if the `Idempotency-Key` of a mutation is invalid. */
  async #contextOf(
    prepared: HandlerInput['prepared'],
    caller: Caller,
    exchange: HttpExchange,
  ): Promise<Outcome<GraphqlContext>> {
    const { authenticator, perform, rateLimiter, addressOf } = this.#parts;
    const { headers } = exchange.request;
    const isChange = 'operation' in prepared && isMutation(prepared);
    const key = isChange ? idempotencyKeyIn(headers) : NO_KEY;
    if (!key.ok) return key;
    const csrf = isChange ? await authenticator.csrfRefusal(headers, caller) : null;
    const { charge } = new RequestCost(rateLimiter, { caller, address: addressOf(exchange.request) }, (charged) => {
      exchange.rateLimitHeaders = charged;
    });
    return done(
      makeGraphqlContext({ caller, perform, charge, changeRefusal: csrf?.refusal ?? null, idempotencyKey: key.value }),
    );
  }

  async #answer(input: HandlerInput): Promise<void> {
    const { exchange, context } = input;
    const [body, { status, headers }] = await this.#execute(input);
    if (body === null) return sendRefusal(exchange, NOT_ACCEPTED);
    const { changes, replayed } = context.changeCounts;
    const more = changes > 0 && replayed === changes ? ['Idempotent-Replayed', 'true'] : [];
    send(exchange, status, { type: headers?.['content-type'] ?? JSON_TYPE, body }, more);
  }

  /** Makes one handler of the library per request, because its errors carry the request's ID. */
  #execute(input: HandlerInput): Promise<Response> {
    const { params, exchange } = input;
    const { requestId, method, request } = exchange;
    const accept = negotiateMediaType(request.headers.accept);
    const formatError = (error: Readonly<GraphQLError | Error>) => toClientError(error, this.#parts.log, requestId);
    const handler = createHandler<unknown, undefined, GraphqlContext>({
      parseRequestParams: () => ({ ...params, extensions: null }),
      onSubscribe: () => this.#executionOf(input, accept, formatError),
      execute,
      // The library's own serialiser searches each member for errors, which costs more than the rest of the request.
      onOperation: (_request, _args, result) =>
        result.errors === undefined ? jsonResponse(JSON.stringify(result), 200, accept) : undefined,
      formatError,
    });
    return handler({ method, url: PATH, headers: { accept }, body: null, raw: null, context: undefined });
  }

  /** The arguments of the execution; a response or errors for a document that is not executed. */
  #executionOf(
    { params, prepared, context }: HandlerInput,
    accept: ResponseMediaType,
    formatError: (error: GraphQLError) => GraphQLError,
  ): Response | readonly GraphQLError[] | (ExecutionArgs & { contextValue: GraphqlContext }) {
    if ('errors' in prepared) {
      const { errors, excessive } = prepared;
      return excessive ? jsonResponse(JSON.stringify({ errors: errors.map(formatError) }), 400, accept) : errors;
    }
    if (prepared.operation.operation === OperationTypeNode.SUBSCRIPTION)
      return [new GraphQLError(SUBSCRIPTION_NEEDS_WEBSOCKET)];
    return {
      ...prepared.executed,
      operationName: params.operationName,
      variableValues: params.variables,
      contextValue: context,
      hideSuggestions: this.#parts.production,
    };
  }
}

const isMutation = ({ operation }: PreparedDocument): boolean => operation.operation === OperationTypeNode.MUTATION;

const SUBSCRIPTION_NEEDS_WEBSOCKET = 'Subscriptions need a WebSocket on the same path (graphql-transport-ws).';
const NO_KEY = done(null);
const JSON_TYPE = 'application/json; charset=utf-8';

const jsonResponse = (body: string, status: 200 | 400, type: ResponseMediaType): Response => [
  body,
  { status, statusText: STATUS_CODES[status] ?? '', headers: { 'content-type': `${type}; charset=utf-8` } },
];

const RESPONSE_TYPES = ['application/json', 'application/graphql-response+json'] as const;
type ResponseMediaType = (typeof RESPONSE_TYPES)[number];

/** The one of the two media types that the client prefers; plain JSON if it accepts neither. */
const negotiateMediaType = (accept: string | undefined): ResponseMediaType =>
  preferredType(accept, RESPONSE_TYPES) ?? 'application/json';

const NOT_ACCEPTED: Refusal = { code: 'UNSUPPORTED_MEDIA_TYPE', detail: 'Responses are JSON in UTF-8.' };
