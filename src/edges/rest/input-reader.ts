import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { setOwn } from '../../domain/json/value.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import { readBody } from '../shared/body.ts';
import type { Route } from './route.ts';

/** Builds the operation's input object from the path, query, headers and body of a request. */
export type InputReader = (
  request: IncomingMessage,
  values: readonly string[],
  query: string,
) => Outcome<JsonObject> | Promise<Outcome<JsonObject>>;

/** A `list` of texts is the values of a parameter that may be repeated. */
type ParamKind = 'integer' | 'number' | 'boolean' | 'text' | 'list';

const paramPatterns: Record<Exclude<ParamKind, 'text' | 'list'>, RegExp> = {
  integer: /^-?(0|[1-9]\d{0,15})$/,
  number: /^-?\d{1,15}(\.\d{1,15})?$/,
  boolean: /^(true|false)$/,
};

/** An `ETag` of such a number: after it may follow the digest of the representation, which is not compared. */
const ENTITY_TAG = /^"(.*?)(?:-[0-9a-f]{16})?"$/;

/** `fixed`: members that the request cannot have, with their values. */
export function makeInputReader(route: Route, fixed: JsonObject = {}): InputReader {
  // The map is built for the first request with parameters: converting the schemas of all routes would take much of a start.
  let known: Map<string, ParamKind> | null = null;
  const kinds = (): Map<string, ParamKind> => {
    known ??= paramKinds(route);
    return known;
  };
  const names = pathParameters(route.path);
  const inQuery = route.method === 'GET' || route.method === 'DELETE' || route.operation.upload !== undefined;
  const inUrl = route.query ?? [];
  const headers = Object.entries(route.conditionHeaders ?? {});
  const secrets = Object.entries(route.secretHeaders ?? {});

  function complete(input: JsonObject, values: readonly string[], request: IncomingMessage): Outcome<JsonObject> {
    for (const [header, member] of headers) {
      const text = request.headers[header];
      if (typeof text !== 'string') continue;
      const value = typed(text.replace(ENTITY_TAG, '$1'), kinds().get(member));
      // A condition is never ignored: `*`, weak tags and a value that contradicts the body fail.
      const holds = typeof value === 'number' && (!Object.hasOwn(input, member) || input[member] === value);
      if (!holds)
        return refuse('CONFLICT', `${header} must be the ${member} as a number, and must not contradict the body.`);
      setOwn(input, member, value);
    }
    for (const [header, member] of secrets) {
      if (Object.hasOwn(input, member)) return unknownField(member);
      const text = request.headers[header];
      if (typeof text === 'string') setOwn(input, member, text);
    }
    for (const [member, value] of Object.entries(fixed)) {
      if (Object.hasOwn(input, member)) return unknownField(member);
      setOwn(input, member, value);
    }
    for (let n = 0; n < names.length; n++) {
      const name = names[n] as string;
      if (Object.hasOwn(input, name)) return unknownField(name);
      input[name] = values[n] as string;
    }
    return done(input);
  }

  return (request, values, query) => {
    const params = query === '' ? done<JsonObject>({}) : readQuery(query, kinds());
    if (!params.ok) return params;
    if (inQuery) return complete(params.value, values, request);
    const unknown = Object.keys(params.value).find((name) => !inUrl.includes(name));
    if (unknown !== undefined) return unknownField(unknown);
    return readBody(request).then((body) => {
      if (!body.ok) return body;
      const misplaced = inUrl.find((name) => Object.hasOwn(body.value, name));
      if (misplaced !== undefined) return unknownField(misplaced);
      return complete({ ...body.value, ...params.value }, values, request);
    });
  };
}

/** Names of the input members that the path carries. */
export const pathParameters = (path: string): string[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);

/** The type of each query parameter, from the operation's input schema. */
function paramKinds({ operation }: Route): Map<string, ParamKind> {
  const schema = z.toJSONSchema(operation.input, { io: 'input', unrepresentable: 'any' });
  const members = Object.entries(schema.properties ?? {});
  return new Map(
    members.map(([name, member]) => {
      const type = typeof member === 'object' ? member.type : undefined;
      if (type === 'array') return [name, 'list'];
      return [name, type === 'integer' || type === 'number' || type === 'boolean' ? type : 'text'];
    }),
  );
}

function readQuery(query: string, kinds: Map<string, ParamKind>): Outcome<JsonObject> {
  const input: JsonObject = {};
  for (const part of query.split('&')) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    const name = decoded(equals === -1 ? part : part.slice(0, equals));
    const value = decoded(equals === -1 ? '' : part.slice(equals + 1));
    if (name === null || value === null) return invalidInput('', 'The query is not valid percent-encoded UTF-8.');
    const kind = kinds.get(name);
    if (kind === 'list') {
      const values = Object.hasOwn(input, name) ? (input[name] as Json[]) : [];
      setOwn(input, name, [...values, value]);
      continue;
    }
    if (Object.hasOwn(input, name)) return invalidInput(name, `The query repeats ${name}.`);
    setOwn(input, name, typed(value, kind));
  }
  return done(input);
}

/** Converts a text to the member's type. A text that does not fit is left as it is, and the schema refuses it. */
function typed(text: string, kind: ParamKind = 'text'): Json {
  if (kind === 'text' || kind === 'list' || !paramPatterns[kind].test(text)) return text;
  return kind === 'boolean' ? text === 'true' : Number(text);
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return null;
  }
}

const unknownField = (name: string) => invalidInput(name, `${name}: unknown field`, 'unknown field');

const invalidInput = (path: string, detail: string, message = detail) =>
  refuse('VALIDATION_FAILED', detail, { errors: [{ path, message }] });
