import { parseJson } from '../../domain/json/strict.ts';
import { isObject } from '../../domain/json/value.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import { readBody } from '../shared/body.ts';
import type { Exchange } from '../shared/exchange.ts';

/** What a client asks, on either wire. */
export interface RequestParams {
  query: string;
  operationName: string | null;
  variables: JsonObject;
}

const MEMBERS = ['query', 'operationName', 'variables', 'extensions'];

/** From a GET's query or a POST's body. May throw what `readBody` throws. */
export async function readRequestParams(exchange: Exchange): Promise<Outcome<RequestParams>> {
  if (exchange.method !== 'POST') {
    const given = parseQueryString(exchange.query);
    return given.ok ? parseRequestParams(given.value) : given;
  }
  const inQuery = exchange.query.split('&').find((part) => part !== '');
  if (inQuery !== undefined) return invalidParam(inQuery.split('=', 1)[0] ?? '', 'is not known here');
  const { headers } = exchange.request;
  if (headers['content-type'] === undefined)
    return refuse('UNSUPPORTED_MEDIA_TYPE', 'A body is sent as application/json.');
  const body = await readBody(exchange.request);
  return body.ok ? parseRequestParams(body.value) : body;
}

/** From the members of a body, or of a message's payload. */
export function parseRequestParams(given: JsonObject): Outcome<RequestParams> {
  const stray = Object.keys(given).find((name) => !MEMBERS.includes(name));
  if (stray !== undefined) return invalidParam(stray, 'is not known here');
  const { query, operationName = null, variables = null, extensions = null } = given;
  if (typeof query !== 'string') return invalidParam('query', 'must be a text');
  if (operationName !== null && typeof operationName !== 'string')
    return invalidParam('operationName', 'must be a text');
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
