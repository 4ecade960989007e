import { Agent, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../src/domain/values.ts';
import { makeFastRouter } from '../../src/edges/rest/fast-router.ts';
import type { Ask, Row } from '../endpoints/endpoint.ts';
import { makeWorld, type World } from '../endpoints/endpoint-fixtures.ts';
import { table } from '../endpoints/endpoint-table.ts';
import { installFakeSidecar } from '../support/fake-sidecar.ts';
import type { HttpService } from '../support/http-service.ts';
import { fc, runs, seed } from '../support/properties.ts';
import { makeResponseValidator, type ResponseValidator } from '../support/response-validator.ts';
import { slow } from '../support/slow.ts';
import { startHttpServiceOnDatabase } from '../support/test-tenant.ts';
import { brokenBody, changes, pathText, queryText, strangeHeaders } from './hostile-values.ts';
import { type Schema, valuesOf } from './schema-values.ts';

const rootOf = (row: Row): string => (row.root === 'only' ? '' : '/v1');

let service: HttpService;
let mine: World;
let other: World;
let document: Schema;
let shapes: ResponseValidator;
let callers: (string | undefined)[];
const agent = new Agent({ keepAlive: true, maxSockets: 4 });

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  installFakeSidecar(service.services);
  mine = await makeWorld(service);
  other = await makeWorld(service);
  document = (await service.call('GET', '/openapi.json')).body;
  shapes = makeResponseValidator(document);
  const { owner, user, viewer } = mine.tokens;
  callers = [owner, owner, owner, user, viewer, other.tokens.owner, mine.operator, 'junk', undefined];
});
afterAll(async () => {
  agent.destroy();
  await service.close();
});

const router = makeFastRouter(table.map((row) => ({ method: row.method, path: rootOf(row) + row.path, row })));

interface Sent {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: Buffer | null;
}

function send({ method, path, headers, body }: Sent): Promise<{ status: number; type: string; text: string }> {
  const { hostname, port } = new URL(service.url);
  return new Promise((resolve, reject) => {
    const asking = request({ hostname, port, method, path, headers, agent }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () => {
        const type = response.headers['content-type']?.split(';')[0] ?? '';
        resolve({ status: response.statusCode ?? 0, type, text: Buffer.concat(chunks).toString() });
      });
    });
    asking.on('error', reject);
    asking.end(body ?? undefined);
  });
}

/** Describes how the response to a request of this row differs from its documentation; null if it conforms. */
async function faultOf(row: Row, sent: Sent): Promise<string | null> {
  const { status, type, text } = await send(sent);
  const sentMessages = `${sent.method} ${sent.path.slice(0, 200)} ${sent.body?.toString().slice(0, 300)} → ${status} ${text.slice(0, 500)}`;
  if (service.errors.length > 0) return `${sentMessages}\nlogged ${JSON.stringify(service.errors.splice(0))}`;
  if (status >= 500) return sentMessages;
  const body: unknown = /[/+]json$/.test(type) && text !== '' ? JSON.parse(text) : text;
  // A changed path can match another route, or none.
  const { instance = '', detail = '' } = (typeof body === 'object' ? body : {}) as Record<string, string>;
  if (status === 404 && detail === 'There is nothing at this path.') return instance === '' ? sentMessages : null;
  if (status === 405) return type === 'application/problem+json' ? null : sentMessages;
  const { path: pattern } = rowAt(sent) ?? row;
  const fault = shapes(row.method, pattern, { status, type, body });
  return fault === null ? null : `${sentMessages}\n${fault}`;
}

/** The row that matches a path with arbitrary parameters. */
function rowAt({ method, path }: Sent): Row | null {
  const found = router.find(method, path.replace(/\?.*/s, ''));
  return found?.entry.row ?? null;
}

const tokenOf = (row: Row, { token }: Ask): string | undefined =>
  token ?? (row.role === 'platform' ? mine.operator : row.role === 'open' ? undefined : mine.tokens.owner);

function request_(row: Row, request: Ask, more: Partial<Sent> & { token?: string | undefined } = {}): Sent {
  const token = 'token' in more ? more.token : tokenOf(row, request);
  const body = more.body === undefined ? bytesOf(request.body) : more.body;
  const headers = {
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(body !== null && { 'content-type': 'application/json', 'content-length': `${body.length}` }),
    ...request.headers,
    ...more.headers,
  };
  return { method: row.method, path: more.path ?? rootOf(row) + request.path, headers, body };
}

const bytesOf = (body: unknown): Buffer | null =>
  body === undefined ? null : Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));

/** The pattern with each `{…}` replaced. */
const filled = (row: Row, texts: readonly string[]): string => {
  let n = 0;
  return rootOf(row) + row.path.replace(/\{\w+\}/g, () => texts[n++ % texts.length] ?? '');
};

/** Undoes service-wide effects of a request. */
async function restore(): Promise<void> {
  for (const flag of ['maintenance_mode', 'registration_lock', 'commands_disabled', 'cognition_disabled'] as const) {
    if (service.flags.current()[flag]) await service.flags.set(flag, false);
  }
}

async function holds(row: Row, requests: fc.Arbitrary<Sent>): Promise<void> {
  await fc.assert(
    fc.asyncProperty(requests, async (sent) => {
      const fault = await faultOf(row, sent);
      await restore();
      if (fault !== null) throw new Error(fault);
    }),
    {
      ...runs(10),
      endOnFailure: process.env.SHRINK === undefined,
    },
  );
}

/** Its requests could end the sessions with which the others are sent. */
const endsSessions = ({ method, path }: Row): boolean =>
  path === '/auth/logout' || (method === 'DELETE' && /\/sessions(?:$|\/)/.test(path));

const isText = (value: unknown): value is string => typeof value === 'string';
const idsIn = (value: unknown): string[] =>
  JSON.stringify(value ?? null).match(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g) ?? [];

const rows = table.map((row) => [`${row.method} ${row.path}`, row] as const);

describe.each(rows)(`%s (seed ${seed})`, (_, row) => {
  it('answers every request that matches its description as documented', async () => {
    const operation = document.paths[row.path][row.method.toLowerCase()];
    const schema = operation.requestBody?.content['application/json']?.schema;
    const request = await row.request(mine);
    const ids = idsIn([request, mine.homeId, mine.roomId]);
    const values = (one: Schema) => valuesOf(one, { components: document.components.schemas, ids });
    const query = (operation.parameters ?? []).filter((one: Schema) => one.in === 'query');
    const requested = fc.record(Object.fromEntries(query.map((one: Schema) => [one.name, values(one.schema)])), {
      requiredKeys: [],
    });
    // Parts of a request that is known to succeed, to get past the first checks.
    const known = Object.entries((request.body ?? {}) as Record<string, Json>);
    const bodies =
      schema === undefined
        ? fc.constant(undefined)
        : fc
            .tuple(values(schema), fc.subarray(known))
            .map(([made, kept]) =>
              typeof made === 'object' && !Array.isArray(made) ? { ...made, ...Object.fromEntries(kept) } : made,
            );
    await holds(
      row,
      fc.tuple(bodies, requested).map(([body, parameters]) => {
        const pairs = Object.entries(parameters as Record<string, Json>).map(
          ([name, value]) =>
            `${name}=${encodeURIComponent(isText(value) ? value.toWellFormed() : JSON.stringify(value))}`,
        );
        const path = request.path.split('?')[0] + (pairs.length > 0 ? `?${pairs.join('&')}` : '');
        return request_(row, { ...request, path, body });
      }),
    );
  });

  it('answers every invalid request as documented, and never with a server fault', slow, async () => {
    const [one, two, foreign] = [await row.request(mine), await row.request(mine), await row.request(other)];
    const ids = [
      ...new Set([...idsIn(foreign), ...idsIn(one), mine.tenantId, mine.userId, other.tenantId, other.name]),
    ];
    const good = JSON.stringify(Buffer.isBuffer(two.body) ? {} : (two.body ?? {}));
    const body = fc.oneof(
      {
        weight: 4,
        arbitrary: fc.array(changes(ids), { minLength: 1, maxLength: 3 }).map((all) => {
          const changed = all.reduce((value, change) => change(value), JSON.parse(good) as Json);
          return Buffer.from(JSON.stringify(changed));
        }),
      },
      { weight: 1, arbitrary: brokenBody(good) },
    );
    const path = fc.oneof(
      { weight: 3, arbitrary: fc.constant(rootOf(row) + two.path) },
      {
        weight: 1,
        arbitrary: fc.array(pathText(ids), { minLength: 1, maxLength: 2 }).map((texts) => filled(row, texts)),
      },
    );
    const name = fc.constantFrom(
      'limit',
      'cursor',
      'no_such',
      '__proto__',
      'home_id',
      'online',
      'tenant_id',
      '%00',
      '',
    );
    const query = fc.array(
      fc.tuple(name, queryText).map(([key, value]) => `${key}=${value}`),
      { maxLength: 2 },
    );
    const whole = fc.record({
      body: row.method === 'GET' ? fc.constant(null) : fc.option(body, { freq: 8 }),
      path,
      query: fc.oneof(
        { weight: row.method === 'GET' ? 3 : 0, arbitrary: query },
        { weight: 3, arbitrary: fc.constant([]) },
        { weight: 1, arbitrary: query },
      ),
      headers: fc.oneof({ weight: 2, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: strangeHeaders }),
      token: fc.oneof(
        { weight: 3, arbitrary: fc.constant(tokenOf(row, two)) },
        { weight: 1, arbitrary: fc.constantFrom(...callers) },
      ),
    });
    const spare = endsSessions(row) ? await service.token('whoever') : null;
    await holds(
      row,
      whole.map(({ query: pairs, path: at, token, ...sent }) =>
        request_(row, two, {
          ...sent,
          token: spare ?? token,
          path: pairs.length > 0 ? `${at}?${pairs.join('&')}` : at,
        }),
      ),
    );
  });
});

it('the service still works after all requests above', async () => {
  expect(service.errors).toEqual([]);
  expect(({} as Record<string, unknown>).admin).toBeUndefined();
  expect((await service.call('GET', '/health')).status).toBe(200);
  const fresh = await makeWorld(service);
  expect((await fresh.call('POST', `/device/${await fresh.device()}/command`, { action: 'turn_on' })).status).toBe(202);
});
