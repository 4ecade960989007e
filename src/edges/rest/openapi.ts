import { z } from 'zod';
import { refusalCodeSchema } from '../../domain/enum-schemas.ts';
import { isObject } from '../../domain/json/value.ts';
import { type RefusalCode, refusals } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import type { Operation, Upload } from '../../operations/operation.ts';
import { SERVICE_NAME, SERVICE_VERSION } from '../../operations/platform/system.ts';
import { PLATFORM_SCOPE } from '../../services/tokens.ts';
import { SlicedBuild } from '../shared/sliced-build.ts';
import { API_DESCRIPTION } from './openapi-description.ts';
import { documentedResources } from './openapi-resources.ts';
import { SchemaComponents } from './openapi-schemas.ts';
import { securityOf, securitySchemes } from './openapi-security.ts';
import { acceptsIdempotencyKey, BASE_PATHS, type Route } from './route.ts';

const problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string(),
    code: refusalCodeSchema,
    request_id: uuid,
    errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
    command_id: uuid.optional().meta({ description: 'The rejected command, if the refusal is of one' }),
  })
  .meta({ id: 'Problem', description: 'RFC 9457, with a stable code' });

/** A section of the API reference. */
export interface RouteGroup {
  title: string;
  about: string;
  routes: readonly Route[];
}

/** Builds the OpenAPI 3.1 document from the routes and schemas that serve the requests, and the configured tiers. */
export const buildOpenApi = (groups: readonly RouteGroup[], tiers: readonly string[] = []): JsonObject =>
  new SlicedBuild(openApiSteps(groups, tiers)).get();

/** The steps of `buildOpenApi`: one for each route. */
export function* openApiSteps(groups: readonly RouteGroup[], tiers: readonly string[]): Generator<void, JsonObject> {
  const schemas = new SchemaComponents(tiers);
  schemas.output(z.object({ problem })); // registers the component
  const responses: JsonObject = {};
  const paths: Record<string, JsonObject> = {};
  for (const { title, routes } of groups) {
    for (const route of routes) {
      const path: JsonObject = paths[route.path] ?? serversOf(route);
      path[route.method.toLowerCase()] = operationOf(route, title, schemas, responses);
      paths[route.path] = path;
      yield;
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: SERVICE_NAME,
      version: SERVICE_VERSION,
      description: API_DESCRIPTION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: ROOT_SERVERS,
    tags: groups.map(({ title, about }) => ({ name: title, description: about })),
    paths: { ...paths, ...documentedResources({ ...COMMON_HEADERS, ...RATE_HEADERS }, serversOf({ atRoot: true })) },
    components: {
      schemas: schemas.components,
      responses,
      securitySchemes,
      headers: {
        RequestId: {
          description: "The request's `X-Request-ID` if it was a UUID, otherwise a new one",
          schema: { type: 'string', format: 'uuid' },
        },
        ApiVersion: { schema: { type: 'string', const: '1' } },
        ProtocolVersion: {
          description: 'Version of this API; the messages of devices have another one, `PROTO/3.1`',
          schema: { type: 'string', const: 'PROTO/3.0' },
        },
        NextPage: {
          description: '`<URL of the next page>; rel="next"` (RFC 8288); absent on the last page',
          schema: { type: 'string' },
        },
        TotalCount: {
          description: 'Number of the entries of all pages; absent if it is over 10,000',
          schema: { type: 'integer' },
        },
        EntityTag: {
          description: 'Changes with the representation; for `If-None-Match`, and for `If-Match` of an update',
          schema: { type: 'string' },
        },
        RetryAfter: { description: 'Seconds', schema: { type: 'integer' } },
        RateLimitPolicy: {
          description:
            'Rate limit of the caller (draft-ietf-httpapi-ratelimit-headers): `q` requests in `w` seconds. `tenant`: all ' +
            'requests of a tenant, by its tier; `session`: a cookie session, per user; `user`: a user without a tenant; ' +
            '`address`: requests without authentication, per client address; `sign-in`: failed sign-ins, per client address. ' +
            'Absent without a limit.',
          schema: { type: 'string', examples: ['"tenant";q=60;w=60'] },
        },
        RateLimit: {
          description:
            'Remaining quota: `r` requests within the next `t` seconds, after which the full quota is available again',
          schema: { type: 'string', examples: ['"tenant";r=59;t=60'] },
        },
        Replayed: {
          description: '`true` if this is the stored response to an earlier request with the same `Idempotency-Key`',
          schema: { type: 'string', const: 'true' },
        },
      },
    },
  };
}

const ROOT_SERVERS: Json[] = BASE_PATHS.map((url) => ({ url }));

/** Servers of a path that is not only below the base paths. */
function serversOf({ atRoot }: Pick<Route, 'atRoot'>): JsonObject {
  if (atRoot === undefined) return {};
  return { servers: atRoot === 'only' ? [{ url: '/' }] : [...ROOT_SERVERS, { url: '/' }] };
}

const headerRef = (name: string): JsonObject => ({ $ref: `#/components/headers/${name}` });
const COMMON_HEADERS: JsonObject = {
  'X-Request-ID': headerRef('RequestId'),
  'X-API-Version': headerRef('ApiVersion'),
  'X-Protocol-Version': headerRef('ProtocolVersion'),
};

const RATE_HEADERS: JsonObject = {
  'RateLimit-Policy': headerRef('RateLimitPolicy'),
  RateLimit: headerRef('RateLimit'),
};

const headersOf = ({ rateLimitExempt }: Route): JsonObject =>
  rateLimitExempt ? COMMON_HEADERS : { ...COMMON_HEADERS, ...RATE_HEADERS };

function operationOf(route: Route, tag: string, schemas: SchemaComponents, shared: JsonObject): JsonObject {
  const { operation, method } = route;
  const input = schemas.input(operation.input);
  const members = isObject(input.properties) ? input.properties : {};
  const required = Array.isArray(input.required) ? input.required : [];
  const inPath = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
  const secrets = Object.entries(route.secretHeaders ?? {});
  const inPathOrHeader = [...inPath, ...secrets.map(([, member]) => member)];
  const rest = Object.keys(members).filter((name) => !inPathOrHeader.includes(name));
  const inQuery = rest.filter((name) => method === 'GET' || method === 'DELETE' || route.query?.includes(name));
  const inBody = rest.filter((name) => !inQuery.includes(name));
  const rules = operation.bodyRules ?? {};
  const body = Array.isArray(input.oneOf)
    ? input
    : inBody.length > 0
      ? { ...bodySchema(input, inPath, inBody), ...rules }
      : null;
  const { withoutCredential } = route;
  const bodies = withoutCredential && { anyOf: [body, schemas.input(withoutCredential.body)] };
  const parameters: Json[] = [
    ...inPath.map((name) => ({ name, in: 'path', required: true, schema: members[name] ?? {} })),
    ...inQuery.map((name) => ({
      ...{ name, in: 'query', required: required.includes(name), schema: members[name] ?? {} },
      ...describedAs(members[name]),
    })),
    ...Object.entries(route.conditionHeaders ?? {}).map(([name, member]) => ({
      ...{ name, in: 'header', required: false, schema: { type: 'string' } },
      description: `\`${member}\`, instead of the body member`,
    })),
    ...secrets.map(([name, member]) => ({
      ...{ name, in: 'header', required: required.includes(member), schema: members[member] ?? {} },
      ...describedAs(members[member]),
    })),
    ...(acceptsIdempotencyKey(route) ? [IDEMPOTENCY_KEY] : []),
  ];
  return {
    operationId: operation.name,
    summary: operation.summary,
    tags: [tag],
    'x-role': operation.role,
    'x-scope': operation.platformOnly ? PLATFORM_SCOPE : operation.scope,
    ...(operation.alsoScope !== undefined && { 'x-also-scope': operation.alsoScope }),
    security: [...securityOf(operation), ...(withoutCredential === undefined ? [] : [{}])],
    ...(parameters.length > 0 && { parameters }),
    ...(body !== null && { requestBody: bodyOf(operation, bodies ?? body) }),
    ...(operation.upload !== undefined && { requestBody: uploadOf(operation.upload) }),
    responses: responsesOf(route, { schemas, shared }),
  };
}

function responsesOf(route: Route, { schemas, shared }: { schemas: SchemaComponents; shared: JsonObject }): JsonObject {
  const answers = answersOf(route, schemas);
  return { ...answers, ...problemsOf(route, { answers, shared }) };
}

const IDEMPOTENCY_KEY: JsonObject = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' },
  description: 'A request with the same key runs once; its response is stored for 24 hours.',
};

const describedAs = (schema: Json | undefined): JsonObject =>
  isObject(schema) && typeof schema.description === 'string' ? { description: schema.description } : {};

/** Schema of the input members that the body carries. */
function bodySchema(input: JsonObject, inPath: string[], inBody: string[]): JsonObject {
  const members = input.properties as JsonObject;
  const required = (Array.isArray(input.required) ? input.required : []).filter((name) => !inPath.includes(`${name}`));
  return {
    type: 'object',
    properties: Object.fromEntries(inBody.map((name) => [name, members[name] as Json])),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  };
}

function bodyOf(operation: Operation, schema: JsonObject): JsonObject {
  const example = (operation.example as { input?: JsonObject } | undefined)?.input;
  return {
    required: [schema.required, schema.oneOf, schema.anyOf].some((rule) => rule !== undefined),
    content: { 'application/json': { schema, ...(example !== undefined && { example }) } },
  };
}

const uploadOf = ({ type }: Upload): JsonObject => ({
  required: true,
  content: { [type]: { schema: { type: 'string', contentMediaType: type } } },
});

function answersOf(route: Route, schemas: SchemaComponents): JsonObject {
  const { operation, success } = route;
  const headers = {
    ...headersOf(route),
    ...(acceptsIdempotencyKey(route) && { 'Idempotent-Replayed': headerRef('Replayed') }),
    ...(operation.tagged && { ETag: headerRef('EntityTag') }),
    ...(operation.output instanceof z.ZodArray && {
      ...{ Link: headerRef('NextPage'), 'X-Total-Count': headerRef('TotalCount') },
    }),
  };
  if (operation.download !== undefined) return fileAnswers(operation.download, headers);
  if (operation.streams !== undefined)
    return { 200: { description: 'The file', headers, content: streamContent(operation.streams) } };
  if (success === 204) return { 204: { description: 'Done', headers } };
  const answers = operation.responses ?? { [success]: { when: 'Done', body: operation.output } };
  const examples = examplesOf(operation);
  const unchanged = operation.tagged === true &&
    route.method === 'GET' && {
      304: { description: 'The answer matches `If-None-Match`', headers },
    };
  const byStatus = Object.fromEntries(
    Object.entries(answers).map(([status, { when, body }]) => [
      status,
      {
        description: when,
        headers,
        content: {
          'application/json': {
            schema: schemas.output(body),
            ...(status === `${success}` && examples),
          },
        },
      },
    ]),
  );
  const streams = Object.values(route.byMediaType ?? {});
  const described = byStatus[success];
  if (streams.length === 0 || described === undefined) return { ...byStatus, ...unchanged };
  const names = [...new Set(streams.map(({ operation: { name } }) => `\`${name}\``))].join(' or ');
  const byType = streamContent(Object.keys(route.byMediaType ?? {}));
  const when = `${described.description}. Other media types than JSON: the file of ${names}, with its parameters`;
  const answer = { ...described, description: when, content: { ...described.content, ...byType } };
  return { ...byStatus, [success]: answer, ...unchanged };
}

const streamContent = (types: readonly string[]): JsonObject =>
  Object.fromEntries(types.map((type) => [type, { schema: { type: 'string' } }]));

function examplesOf({ example, examples }: Operation): JsonObject {
  if (examples !== undefined) {
    const entries = Object.entries(examples).map(([name, { summary, output }]) => [
      name,
      { summary, value: output as Json },
    ]);
    return { examples: Object.fromEntries(entries) };
  }
  const output = (example as { output?: JsonObject } | undefined)?.output;
  return output === undefined ? {} : { example: output };
}

/** Responses of a download, complete or partial (RFC 9110 §14). */
function fileAnswers(type: string, headers: JsonObject): JsonObject {
  const content = { [type]: { schema: { type: 'string', contentMediaType: type } } };
  const text = { schema: { type: 'string' } };
  const tagged = { ...headers, ETag: text };
  return {
    200: { description: 'The file', headers: { ...tagged, 'Accept-Ranges': text }, content },
    206: { description: 'The requested range', headers: { ...tagged, 'Content-Range': text }, content },
    304: { description: 'The file matches `If-None-Match`', headers: tagged },
    412: { description: 'The file does not match `If-Match`', headers },
    416: { description: 'The range is not satisfiable', headers: { ...headers, 'Content-Range': text } },
  };
}

/** Responses for every refusal of the operation, one per status. Operations with the same codes share a component. */
function problemsOf(route: Route, { answers, shared }: { answers: JsonObject; shared: JsonObject }): JsonObject {
  const byStatus = new Map<number, RefusalCode[]>();
  for (const code of new Set(refusalCodesOf(route))) {
    const { status } = refusals[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => {
      const name = codes.sort().join('-');
      const answer = answers[status];
      const response = () => problemResponse(status, codes, headersOf(route));
      if (isObject(answer)) return [status, mergeResponses(answer, response())];
      // The shared responses include the rate limit headers.
      if (route.rateLimitExempt) return [status, response()];
      shared[name] ??= response();
      return [status, { $ref: `#/components/responses/${name}` }];
    }),
  );
}

/** Merges a success and a refusal response that have the same status; the media type distinguishes them. */
const mergeResponses = (answer: JsonObject, problem: JsonObject): JsonObject => ({
  description: `${answer.description}. ${problem.description}`,
  headers: { ...(problem.headers as JsonObject), ...(answer.headers as JsonObject) },
  content: { ...(answer.content as JsonObject), ...(problem.content as JsonObject) },
});

const problemResponse = (status: number, codes: readonly RefusalCode[], headers: JsonObject): JsonObject => ({
  description: codes.map((code) => `\`${code}\`: ${refusals[code].title}`).join('. '),
  headers: { ...headers, ...([409, 429, 503].includes(status) && { 'Retry-After': headerRef('RetryAfter') }) },
  content: {
    'application/problem+json': {
      schema: { $ref: '#/components/schemas/Problem' },
      examples: Object.fromEntries(codes.map((code) => [code, { value: exampleOf(code) }])),
    },
  },
});

const exampleOf = (code: RefusalCode): JsonObject => ({
  type: `urn:twinkeep:problem:${code}`,
  ...refusals[code],
  detail: `${refusals[code].title}.`,
  instance: '/v1/…',
  code,
  request_id: '0195d9a2-7f00-7000-8000-000000000000',
});

/** Operations of persons and operators refuse every key with another code. */
const mayRefuseRestrictedKeys = ({ role, platformOnly, personOnly, restrictedKeys }: Route['operation']): boolean =>
  role !== null && !platformOnly && !personOnly && (restrictedKeys ?? 'actions') === 'actions';

function refusalCodesOf(route: Route): RefusalCode[] {
  const { role, scope, platformOnly, personOnly, changes, inMaintenance, inSuspension, stoppedBy, refuses } =
    route.operation;
  const named = role !== null;
  const inTenant = named && role !== 'none' && !platformOnly;
  const ids = route.path.includes('{');
  const stops = {
    registration_lock: 'REGISTRATION_LOCKED',
    commands_disabled: 'COMMANDS_DISABLED',
    cognition_disabled: 'COGNITION_DISABLED',
  } as const;
  return [
    'VALIDATION_FAILED',
    ...(route.rateLimitExempt ? [] : (['RATE_LIMIT_EXCEEDED'] as const)),
    ...(named ? (['UNAUTHENTICATED'] as const) : []),
    ...(inTenant ? (['TENANT_REQUIRED', 'FORBIDDEN_ROLE'] as const) : []),
    ...(named && !platformOnly && !inSuspension ? (['TENANT_SUSPENDED'] as const) : []),
    ...(named && scope !== null ? (['INSUFFICIENT_SCOPE'] as const) : []),
    ...(mayRefuseRestrictedKeys(route.operation) ? (['KEY_RESTRICTED'] as const) : []),
    ...(platformOnly || personOnly ? (['FORBIDDEN'] as const) : []),
    ...(named && changes ? (['CSRF_FAILED'] as const) : []),
    ...(ids ? (['NOT_FOUND'] as const) : []),
    // The body is checked even if the operation takes none.
    ...(route.method !== 'GET' && route.method !== 'DELETE'
      ? (['PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE'] as const)
      : []),
    ...(acceptsIdempotencyKey(route) && named ? (['CONFLICT', 'IDEMPOTENCY_MISMATCH'] as const) : []),
    ...(changes && !inMaintenance ? (['MAINTENANCE'] as const) : []),
    ...(stoppedBy !== undefined ? [stops[stoppedBy]] : []),
    ...(refuses ?? []),
    ...Object.values(route.byMediaType ?? {}).flatMap(({ operation }) => operation.refuses ?? []),
    ...(named ? (['STORE_UNAVAILABLE', 'OVERLOADED'] as const) : []),
    'INTERNAL',
  ];
}
