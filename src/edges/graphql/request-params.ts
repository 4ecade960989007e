import { parseJson } from '../../domain/json/strict.ts';
import { isObject } from '../../domain/json/value.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import { readBody } from '../shared/body.ts';
import type { HttpExchange } from '../shared/http-exchange.ts';

/** Parameters of a GraphQL request, over HTTP or WebSocket. */
export interface RequestParams {
  query: string;
  operationName: string | null;
  variables: JsonObject;
}

const MEMBERS = ['query', 'operationName', 'variables', 'extensions'];

/** Reads the parameters from the query of a GET or the body of a POST. Throws what `readBody` throws. */
export async function readRequestParams(exchange: HttpExchange): Promise<Outcome<RequestParams>> {
  if (exchange.method !== 'POST') {
    const given = parseQueryString(exchange.query);
    return given.ok ? parseRequestParams(given.value) : given;
  }
  const inQuery = exchange.query.split('&').find((part) => part !== '');
  if (inQuery !== undefined) return invalidParam(inQuery.split('=', 1)[0] ?? '', 'unknown query parameter');
  const { headers } = exchange.request;
  if (headers['content-type'] === undefined)
    return refuse('UNSUPPORTED_MEDIA_TYPE', 'Send the body as application/json.');
  const body = await readBody(exchange.request);
  return body.ok ? parseRequestParams(body.value) : body;
}

/** Reads the parameters from a body, or from the payload of a WebSocket message. */
export function parseRequestParams(given: JsonObject): Outcome<RequestParams> {
  const unknown = Object.keys(given).find((name) => !MEMBERS.includes(name));
  if (unknown !== undefined) return invalidParam(unknown, 'unknown field');
  const { query, operationName = null, variables = null, extensions = null } = given;
  if (typeof query !== 'string') return invalidParam('query', 'must be a string');
  if (operationName !== null && typeof operationName !== 'string')
    return invalidParam('operationName', 'must be a string');
  if (variables !== null && !isObject(variables)) return invalidParam('variables', 'must be an object');
  if (extensions !== null && !isObject(extensions)) return invalidParam('extensions', 'must be an object');
  return done({ query, operationName, variables: variables ?? {} });
}

function parseQueryString(text: string): Outcome<JsonObject> {
  const given: JsonObject = {};
  for (const part of text.split('&').filter((one) => one !== '')) {
    const [name = '', value = ''] = part.split(/=(.*)/s, 2).map(decoded);
    if (name === null || value === null) return invalidParam('', 'is not valid percent-encoded UTF-8');
    if (Object.hasOwn(given, name)) return invalidParam(name, 'is repeated');
    const read = name === 'variables' || name === 'extensions' ? json(value) : done<Json>(value);
    if (!read.ok) return invalidParam(name, read.refusal.detail);
    given[name] = read.value;
  }
  return done(given);
}

function json(text: string): Outcome<Json> {
  const read = parseJson(Buffer.from(text));
  return read.ok ? done(read.value) : refuse('VALIDATION_FAILED', read.reason);
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return null;
  }
}

const invalidParam = (path: string, message: string) =>
  refuse('VALIDATION_FAILED', path === '' ? `The query ${message}.` : `${path}: ${message}`, {
    errors: [{ path, message }],
  });
