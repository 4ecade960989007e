import { ErrorCode, type McpError } from '@modelcontextprotocol/sdk/types.js';
import { v4 } from 'uuid';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { FieldError } from '../../src/domain/refusals.ts';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import { REFUSAL_META_KEY } from '../../src/edges/mcp/tool-results.ts';
import { deviceHistoryArguments } from '../../src/edges/mcp/tools/history-tools.ts';
import { timelineTarget } from '../../src/edges/mcp/tools/timeline-tool.ts';
import { tools } from '../../src/edges/mcp/tools/tool-list.ts';
import type { Route } from '../../src/edges/rest/route.ts';
import { routes } from '../../src/edges/rest/routes.ts';
import { commandDevices } from '../../src/operations/commands/command-batches.ts';
import { patchDevice } from '../../src/operations/devices/devices.ts';
import { flagNames } from '../../src/services/flags.ts';
import { expectNoLibraryText, expectOwnText, schemaTexts } from '../support/error-texts.ts';
import { installFakeSidecar } from '../support/fake-sidecar.ts';
import type { CallResult, HttpService } from '../support/http-service.ts';
import { callTool, mcpClient } from '../support/mcp.ts';
import { startHttpServiceOnDatabase } from '../support/test-tenant.ts';
import { graphql } from './edges/graphql.ts';
import { extremeValues, type InputSchema, invalidInputs, invalidMembers, oddValues } from './invalid-inputs.ts';

// Every field of every operation gets invalid values: callers read the service's texts, never those of a library.

const cases = routes.map((route) => {
  const variants = invalidMembers(route.operation.input);
  return [`${route.method} ${route.path}`, { route, variants, inputs: invalidInputs(variants) }] as const;
});

let service: HttpService;
let tokens: { owner: string; operator: string };
/** Inputs that violate a rule about several members, which an invalid value of one member does not reach. */
const contradictions: readonly [z.ZodType, JsonObject][] = [
  [patchDevice.input, { id: v4(), tags: [], add_tags: [] }],
  [commandDevices.input, { action: 'turn_on' }],
  [timelineTarget, { room_id: v4() }],
  [deviceHistoryArguments, { device_id: v4(), cursor: 'x' }],
];

/** Texts of the schemas. */
const ownTexts = new Set<string>();

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  installFakeSidecar(service.services);
  tokens = {
    owner: (await service.owner()).token,
    operator: await service.token(v4(), { scope: 'platform:admin' }),
  };
  for (const [schema, input] of contradictions) {
    for (const text of schemaTexts(schema, input)) ownTexts.add(text);
  }
  for (const [, { route, inputs }] of cases) {
    for (const input of inputs) for (const text of schemaTexts(route.operation.input, input)) ownTexts.add(text);
  }
});
afterAll(() => service.close());
// A flag that a valid call of `setFlag` has set would make later calls fail for another reason.
afterEach(async () => {
  const { flags } = service;
  for (const flag of flagNames) if (flags.current()[flag]) await flags.set(flag, false);
});

const tokenFor = ({ operation }: Route): string => (operation.platformOnly ? tokens.operator : tokens.owner);

function expectOwnErrors({ detail, errors }: { detail: string; errors?: FieldError[] | null }): void {
  expectNoLibraryText(detail);
  for (const { message } of errors ?? []) expectOwnText(message, ownTexts);
}

const textOf = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** Sends the request that has this input. A member that its place in the request cannot hold is left out. */
function send(route: Route, input: JsonObject): Promise<CallResult> {
  const { method, path, operation, secretHeaders = {}, query = [], atRoot } = route;
  const rest = { ...input };
  const take = (name: string): string | null => {
    const value = rest[name];
    delete rest[name];
    return value === undefined ? null : textOf(value);
  };
  const url = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(take(name) || 'none'));
  const headers: Record<string, string> =
    operation.upload === undefined ? {} : { 'content-type': operation.upload.type };
  for (const [header, name] of Object.entries(secretHeaders)) {
    const value = take(name);
    if (value !== null && /^[\x21-\x7e]+$/.test(value)) headers[header] = value;
  }
  const hasBody = method !== 'GET' && method !== 'DELETE' && operation.upload === undefined;
  const search = new URLSearchParams(
    (hasBody ? query : Object.keys(rest)).flatMap((name) => {
      const value = take(name);
      return value === null ? [] : [[name, value] as [string, string]];
    }),
  );
  const body = operation.upload === undefined ? { ...(hasBody && { body: rest }) } : { body: Buffer.from('x') };
  return service.call(method, `${atRoot === 'only' ? '' : '/v1'}${url}?${search}`, {
    ...{ token: tokenFor(route), headers, ...body },
  });
}

it.each(cases)(
  'the errors of %s name every field in the texts of the service',
  async (_, { route, variants, inputs }) => {
    const failed = new Set<string>();
    for (const input of inputs) {
      const { status, body } = await send(route, input);
      if (status !== 400) expect([input, status, body]).toBeNull();
      expectOwnErrors(body);
      for (const { path } of body.errors) failed.add(path.split('.')[0]);
    }
    const members = variants.flatMap(({ values }) => [...values.keys()]);
    expect(failed).toEqual(new Set([...members, 'no_such_member']));
    expect(service.errors).toEqual([]);
  },
);

/** A value of a required member that the example omits, because REST has it in the path, the query or a header. */
function validValue({ $ref = '', format, type, enum: choices }: InputSchema, defs: InputSchema['$defs'] = {}): Json {
  const target = defs[$ref.replace('#/$defs/', '')];
  if (target !== undefined) return validValue(target, defs);
  if (choices?.[0] !== undefined) return choices[0];
  if (format === 'uuid') return v4();
  return type === 'integer' ? 1 : 'x';
}

/** An input that the operation accepts: its example, and the required members that the example omits. */
function validInput({ operation: { input: schema, example } }: Route): JsonObject {
  const document = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  const { required = [], properties = {}, $defs } = document as InputSchema & { required?: string[] };
  const missing = required.map((name) => [name, validValue(properties[name] ?? {}, $defs)]);
  const input = { ...Object.fromEntries(missing), ...(example?.input as JsonObject | undefined) };
  schema.parse(input);
  return input;
}

interface Extremes {
  name: string;
  schema: InputSchema;
  /** Inputs that the operation accepts, with an extreme value of the member. */
  inputs: JsonObject[];
}

/** The members of an operation's input, those of all its variants. */
function extremesOf(route: Route): Extremes[] {
  const { input: schema } = route.operation;
  const valid = validInput(route);
  const { $defs = {}, ...root } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as InputSchema;
  const members = (root.oneOf ?? [root]).flatMap(({ properties = {} }) => Object.entries(properties));
  return members.map(([name, member]) => {
    const inputs = [...extremeValues(member, $defs, valid[name])].map((value) => ({ ...valid, [name]: value }));
    const target = $defs[(member.$ref ?? '').replace('#/$defs/', '')] ?? member;
    return { name, schema: target, inputs: inputs.filter((input) => schema.safeParse(input).success) };
  });
}

/** Whether the schema itself excludes extreme values: an id, a form or a choice. */
const isClosed = ({ format, pattern, enum: choices, const: constant, type, anyOf }: InputSchema): boolean =>
  [format, pattern, choices, constant].some((keyword) => keyword !== undefined) ||
  type === 'null' ||
  (anyOf?.every(isClosed) ?? false);

describe('extreme values', () => {
  const all = cases.map(([title, { route }]) => [title, { route, members: extremesOf(route) }] as const);
  const accepting = all.filter(([, { members }]) => members.some(({ inputs }) => inputs.length > 0));

  it('exist for every member, except where an operation accepts only certain values', () => {
    const without = all.flatMap(([, { route, members }]) => {
      const reached = new Set(members.flatMap(({ name, inputs }) => (inputs.length > 0 ? [name] : [])));
      const missed = members.filter(({ name, schema }) => !reached.has(name) && !isClosed(schema));
      return missed.map(({ name }) => `${route.operation.name} ${name}`);
    });
    expect(without.sort()).toEqual([
      'addFirmwareKey public_key',
      'commandDevices tags',
      'confirmCommand token',
      'createApiKey restrict_to',
      'createApiKey scopes',
      'createHome timezone',
      'createRelease size',
      'createRelease url',
      'createRelease version',
      'getDeviceTimeline kind',
      'getHomeTimeline kind',
      'getRoomTimeline kind',
      'listDevices tag',
      'orchestrateCommand action',
      'orchestrateCommand params',
      'patchDevice tags',
      'queryHistory devices',
      'registerCa certificate',
      'registerCa registration',
      'registerCa verification_certificate',
      'registerDevice public_key',
      'registerManifest properties',
      'reinstateDevice public_key',
      'rotateSecret public_key',
      'updateCa registration',
      'updateHome timezone',
      'updateManifest properties',
      'verifyAudit from',
    ]);
  });

  it.each(accepting)('of the fields of %s lead to no error of a library', async (_, { route, members }) => {
    for (const input of members.flatMap(({ inputs }) => inputs)) {
      const { status, body } = await send(route, input);
      if (status >= 500) expect([input, status, body]).toBeNull();
      // A change that has to be confirmed has a reason.
      if (status >= 400) expectNoLibraryText(body.detail ?? body.reason);
    }
    expect(service.errors).toEqual([]);
  });
});

describe('GraphQL', () => {
  const fields = cases.flatMap(([, { route, variants }]) => {
    return graphql.has({ route, input: {}, token: '' })
      ? [[route.operation.name, { route, variants, valid: validInput(route) }] as const]
      : [];
  });

  it('serves most operations', () => expect(fields.length).toBeGreaterThan(60));

  it.each(fields)('reports errors of %s that its types admit in own texts', async (_, { route, variants, valid }) => {
    const { input: schema } = route.operation;
    let errors = 0;
    for (const { fixed, values } of variants) {
      const codes = new Set<string>();
      const inputs = [...values]
        .filter(([name]) => !(name in fixed))
        .flatMap(([name, all]) => all.map((value) => ({ ...valid, ...fixed, [name]: value })));
      for (const input of inputs) {
        const issues = schema.safeParse(input).error?.issues ?? [];
        const code = issues.map(({ code, path }) => (code === 'invalid_type' ? code : `${code} ${path}`)).join();
        if (codes.has(code)) continue;
        codes.add(code);
        for (const text of schemaTexts(schema, input)) ownTexts.add(text);
        const request = { path: route.path };
        const answered = await graphql.call({ service, route, input, request, token: tokenFor(route) });
        if (!('code' in answered)) continue;
        errors++;
        expectOwnErrors(answered as { detail: string; errors: FieldError[] | null });
      }
    }
    // The type Boolean admits no value that is refused.
    const isRefusable = ([name]: [string, unknown]) => !schema.safeParse({ ...valid, [name]: true }).success;
    const admitsErrors = variants.some(({ values }) => [...values].some(isRefusable));
    if (admitsErrors) expect(errors).toBeGreaterThan(0);
    expect(service.errors).toEqual([]);
  });
});

describe('MCP', () => {
  const ROUNDS = 12;

  it.each(tools.map((tool) => [tool.name, tool] as const))(
    'reports errors of %s in own texts',
    async (name, { inputSchema }) => {
      const members = Object.entries((inputSchema as InputSchema).properties ?? {});
      const columns = members.map(([member, schema]) => [member, [...oddValues(schema)]] as const);
      const client = await mcpClient(service.url, tokens.owner);
      let errors = 0;
      try {
        for (let n = 0; n < ROUNDS; n++) {
          const at = (values: readonly Json[]) => values[Math.floor((n / ROUNDS) * values.length)];
          const args = Object.fromEntries(columns.map(([member, values]) => [member, at(values)]));
          const { isError, _meta } = await callTool(client, name, args);
          if (!isError) continue;
          errors++;
          expectOwnErrors(_meta?.[REFUSAL_META_KEY] as { detail: string });
        }
      } finally {
        await client.close();
      }
      if (members.length > 0) expect(errors).toBeGreaterThan(0);
    },
  );

  it.each([
    ...['tools/call', 'resources/read', 'resources/subscribe', 'prompts/get', 'completion/complete'],
    ...['tools/list', 'resources/list', 'resources/templates/list', 'prompts/list', 'logging/setLevel'],
  ])('reports errors of the parameters of %s in own texts', async (method) => {
    const client = await mcpClient(service.url, tokens.owner);
    try {
      for (const value of [null, 7, [], {}]) {
        const params = Object.fromEntries(
          ['name', 'uri', 'cursor', 'level', 'ref', 'argument', 'arguments'].map((member) => [member, value]),
        );
        const { code, message } = await client.request({ method, params } as never, z.any()).then(
          () => ({ code: 0, message: '' }),
          (error: McpError) => error,
        );
        expect(code).toBe(ErrorCode.InvalidParams);
        expectOwnText(message.replace(/^MCP error -32602: [\w.]+: /, ''));
      }
    } finally {
      await client.close();
    }
  });
});
