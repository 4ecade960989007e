import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { refusals } from '../../../src/domain/refusals.ts';
import { buildOpenApi } from '../../../src/edges/rest/openapi.ts';
import { routeGroups, routes } from '../../../src/edges/rest/routes.ts';
import { PROTOCOL_VERSION } from '../../../src/protocol/constants.ts';
import { slow } from '../../support/slow.ts';

interface ResponseObject {
  $ref?: string;
  headers?: object;
  content?: Record<string, { schema?: { $ref?: string }; examples?: object }>;
}
interface OperationObject {
  operationId: string;
  parameters?: object[];
  requestBody?: { content: Record<string, { schema: object; example?: unknown; examples?: object }> };
  responses: Record<string, ResponseObject>;
  security: object[];
  'x-role': string | null;
}
interface OpenApiDocument {
  openapi: string;
  paths: Record<string, Record<string, OperationObject>>;
  components: Record<string, object>;
}
/** The document as an external client reads it. */
const document = JSON.parse(JSON.stringify(buildOpenApi(routeGroups))) as OpenApiDocument;
const operations = Object.entries(document.paths).flatMap(([path, { servers: _, ...item }]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
);

/** Resolves a reference of the document. */
function resolve(ref: string): unknown {
  let found: unknown = document;
  for (const part of ref.replace(/^#\//, '').split('/')) found = (found as Record<string, unknown>)?.[part];
  return found;
}

function* walk(value: unknown): Generator<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield value as Record<string, unknown>;
  for (const item of Object.values(value)) yield* walk(item);
}

describe('the document', () => {
  it('is OpenAPI 3.1 and contains every route once', () => {
    expect(document.openapi).toBe('3.1.0');
    const pages = ['/metrics', '/auth/cli', '/auth/login', '/auth/callback'];
    expect(operations).toHaveLength(routes.length + pages.length);
    expect(new Set(operations.map(({ operation }) => operation.operationId)).size).toBe(operations.length);
  });

  it('explains that the API and the messages of devices have different versions', () => {
    const { ProtocolVersion } = document.components.headers as Record<string, { description?: string }>;
    expect(ProtocolVersion?.description).toContain(PROTOCOL_VERSION);
  });

  it('has the alternatives of a body, bodies that are required, and the tiers', () => {
    const bodyOf = (path: string) => {
      const found = operations.find((one) => one.path === path && one.method === 'post');
      const body = found?.operation.requestBody as unknown as {
        required: boolean;
        content: Record<string, { schema: Record<string, unknown> }>;
      };
      expect(body.required).toBe(true);
      return body.content['application/json']?.schema;
    };
    expect(bodyOf('/device/{deviceId}/command/confirm')).toMatchObject({
      anyOf: [{ required: ['dry_run_token'] }, { required: ['token'] }],
    });
    expect(bodyOf('/groups/{slug}/join')).toMatchObject({
      oneOf: [{ required: ['device_id'] }, { required: ['device_ids'] }],
    });
    expect(bodyOf('/devices/{id}/command')).toMatchObject({
      oneOf: [{ required: ['goal'] }, { required: ['action'] }],
    });
    const tiered = JSON.stringify(buildOpenApi(routeGroups, ['free', 'pro']));
    expect(tiered).toContain('"enum":["free","pro"]');
    expect(tiered).not.toContain('oneOfTiers');
  });

  it('has no broken reference, and none into zod', () => {
    for (const { $ref } of walk(document)) {
      if (typeof $ref !== 'string') continue;
      expect($ref).toMatch(/^#\/components\//);
      expect([$ref, resolve($ref)]).not.toContain(undefined);
    }
    expect(JSON.stringify(document)).not.toMatch(/\$defs|__schema|"noun"/);
  });

  it('has no unused component', () => {
    const used = new Set([...walk(document)].map(({ $ref }) => $ref));
    for (const [kind, components] of Object.entries<object>(document.components)) {
      if (kind === 'securitySchemes') continue;
      for (const name of Object.keys(components)) expect(used).toContain(`#/components/${kind}/${name}`);
    }
  });

  it('distinguishes the two kinds of 409 where both are possible', () => {
    const { content, headers } = document.paths['/device/{deviceId}/command']?.post?.responses[409] ?? {};
    expect(content?.['application/json']?.schema?.$ref).toBe('#/components/schemas/DryRunRequired');
    expect(content?.['application/problem+json']?.examples).toHaveProperty('CONFLICT');
    expect(headers).toHaveProperty('Retry-After');
    expect(headers).toHaveProperty('Idempotent-Replayed');
  });

  it('describes the rate limit of limited routes only', () => {
    for (const { path, operation } of operations) {
      const outside = /^\/(health|metrics)/.test(path);
      expect([path, Object.hasOwn(operation.responses, '429')]).toEqual([path, !outside]);
      for (const given of Object.values<{ $ref?: string; headers?: object }>(operation.responses)) {
        const response = given.$ref === undefined ? given : (resolve(given.$ref) as { headers?: object });
        expect([path, Object.hasOwn(response.headers ?? {}, 'RateLimit')]).toEqual([path, !outside]);
        expect([path, Object.hasOwn(response.headers ?? {}, 'RateLimit-Policy')]).toEqual([path, !outside]);
      }
    }
  });

  it('has schemas that compile', slow, () => {
    const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false });
    for (const format of ['uuid', 'date-time', 'email']) ajv.addFormat(format, true);
    ajv.addVocabulary(['components']);
    ajv.addSchema({ $id: 'doc', components: document.components }, 'doc');
    for (const { schema } of walk({ paths: document.paths, responses: document.components.responses })) {
      if (typeof schema !== 'object') continue;
      const text = JSON.stringify(schema).replaceAll('"#/components/', '"doc#/components/');
      expect(() => ajv.compile(JSON.parse(text))).not.toThrow();
    }
  });
});

describe.each(operations.map((entry) => [entry.operation.operationId, entry] as const))(
  '%s',
  (_, { path, method, operation }) => {
    const parameters = (operation.parameters ?? []) as {
      name: string;
      in: string;
      required: boolean;
      description?: string;
    }[];

    it('declares the parameters of its path, and a body only where one is accepted', () => {
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      expect(parameters.filter((one) => one.in === 'path' && one.required).map(({ name }) => name)).toEqual(inPath);
      if (method === 'get' || method === 'delete') expect(operation.requestBody).toBeUndefined();
    });

    it('documents who may call it', () => {
      expect(operation).toHaveProperty('x-role');
      expect(operation).toHaveProperty('x-scope');
      expect(operation.security.length === 0 || operation['x-role'] !== null || path === '/auth/logout').toBe(true);
      if (operation['x-role'] !== null) expect(operation.responses).toHaveProperty('401');
    });

    it('has a success and its refusals, each under its own status', () => {
      const statuses = Object.keys(operation.responses);
      expect(statuses.some((status) => /^2|303/.test(status))).toBe(true);
      for (const [status, { $ref }] of Object.entries<{ $ref?: string }>(operation.responses)) {
        if ($ref === undefined) continue;
        for (const code of $ref.split('/').at(-1)?.split('-') ?? []) {
          expect(refusals[code as keyof typeof refusals].status).toBe(Number(status));
        }
      }
    });

    it('can be tried: each body has an example, and each parameter a description', () => {
      const body = operation.requestBody?.content['application/json'];
      if (body !== undefined) expect(body).toHaveProperty('example');
      for (const { name, in: place, description } of parameters) {
        if (place !== 'path') expect([name, description]).toEqual([name, expect.stringMatching(/\w/)]);
      }
    });

    it('has examples that match its schemas', () => {
      const ajv = new Ajv2020({ strict: false, formats: { uuid: true, 'date-time': true, email: true } });
      for (const { schema, example } of walk({ ...operation, responses: { ...operation.responses } })) {
        if (example === undefined || typeof schema !== 'object') continue;
        const whole = { ...schema, components: document.components };
        expect([ajv.validate(whole, example), ajv.errors]).toEqual([true, null]);
      }
    });
  },
);
