import { v7 } from 'uuid';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { routes } from '../../src/edges/rest/routes.ts';
import { installFakeSidecar } from '../support/fake-sidecar.ts';
import type { HttpService } from '../support/http-service.ts';
import { slow } from '../support/slow.ts';
import { startHttpServiceOnDatabase } from '../support/test-tenant.ts';
import { type Answered, type Edge, inputOf, type Request } from './edges/edge-client.ts';
import { graphql } from './edges/graphql.ts';
import { mcp } from './edges/mcp.ts';
import { same } from './edges/normalized-answer.ts';
import { rest } from './edges/rest.ts';
import type { Ask, Row } from './endpoint.ts';
import { makeWorld, type World } from './endpoint-fixtures.ts';
import { table } from './endpoint-table.ts';

// Compares an operation across all edges that have it: same result, same refusals, same audit entries.

const edges: readonly Edge[] = [graphql, mcp];

const rows = table.flatMap((row) => {
  const route = routes.find(({ method, path }) => method === row.method && path === row.path);
  return route === undefined || row.bytes || !edges.some((edge) => edge.has({ route, input: {}, token: '' }))
    ? []
    : [[`${row.method} ${row.path}`, row, route] as const];
});

let service: HttpService;
/** One token per edge: a token that was presented at /mcp is no longer accepted as a person's. */
const worlds = new Map<Edge, World>();
let world: World;

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  installFakeSidecar(service.services);
  for (const edge of edges) worlds.set(edge, await makeWorld(service));
  const scopes = new Set(rows.flatMap(([, { scope }]) => (scope === null ? [] : [scope])));
  for (const [edge, world] of worlds) {
    for (const scope of scopes) keys.set(`${edge.name} ${scope}`, (await world.apiKey(undefined, [scope])).key);
  }
});
afterAll(() => service.close());

async function tokenFor(role: Row['role']): Promise<string | undefined> {
  if (role === 'open') return undefined;
  if (role === 'platform') return world.operator;
  return role === 'none' ? service.token(v7()) : world.tokens[role];
}

/** API keys of the owner with a single scope, by edge and scope. */
const keys = new Map<string, string>();

const codeIn = (answered: Answered): string | null => ('code' in answered ? answered.code : null);

/** The comparable parts of a refusal. */
function refusalIn(answered: Answered) {
  if (!('code' in answered)) return same(answered);
  return same({ code: answered.code, detail: answered.detail });
}

/** The newest audit entries of the tenant and of the platform: more than an operation adds. */
async function audited(): Promise<Record<string, unknown>[]> {
  const [own, platform] = await Promise.all([
    service.call('GET', '/v1/audit?limit=50', { token: world.tokens.owner }),
    service.call('GET', '/v1/audit?limit=50&platform=true', { token: world.operator }),
  ]);
  return [...own.body.entries, ...platform.body.entries];
}

/** Resolves when the refusals so far are written: audit writes of refusals are asynchronous but ordered. */
async function refusalsAudited(): Promise<void> {
  const ofNobody = { tenantId: v7(), by: v7(), key: null, via: 'rest', requestId: v7(), address: null, client: null };
  await service.services.audit.recordDone({ ...ofNobody, action: 'createHome', subject: 'service' });
}

/** The audit entries that the operation added; the commands of a plan follow later. */
async function newlyAudited(action: string, work: () => Promise<unknown>): Promise<Record<string, unknown>[]> {
  await refusalsAudited();
  const before = new Set((await audited()).map((entry) => JSON.stringify(entry)));
  await work();
  return (await audited()).filter(
    (entry) =>
      entry.action === action &&
      !(action === 'createPlan' && `${entry.subject}`.startsWith('command:')) &&
      !before.has(JSON.stringify(entry)),
  );
}

describe.each(rows)('%s', (_, row, route) => {
  const { operation } = route;
  const request = async (request: Ask, token: string | undefined): Promise<Request> => ({
    ...{ service, route, request, input: inputOf(route, request) },
    token: request.token ?? token,
  });
  /** Each edge gets its own subject for a change; a subject that is only read is shared. */
  async function twice(make: () => Ask | Promise<Ask>): Promise<[Ask, Ask]> {
    const first = await make();
    return [first, operation.changes ? await make() : first];
  }

  describe.each(
    edges.filter((edge) => edge.has({ route, input: {}, token: '' })).map((edge) => [edge.name, edge] as const),
  )('by %s', (_, edge) => {
    beforeAll(() => {
      world = worlds.get(edge) as World;
    });

    it('has the same result and the same audit entries', slow, async () => {
      const token = await tokenFor(row.role);
      const [one, other] = await twice(() => row.request(world, token));
      if (!edge.has(await request(other, token))) return;
      let answers: Answered[] = [];
      const byRest = await newlyAudited(operation.name, async () => {
        answers = [await rest.call(await request(one, token))];
      });
      const otherToken = row.role === 'none' && one.token === undefined ? await tokenFor('none') : token;
      const byEdge = await newlyAudited(operation.name, async () => {
        answers.push(await edge.call(await request(other, otherToken)));
      });
      const [expected, given] = answers as [Answered, Answered];
      expect(codeIn(expected)).toBeNull();
      const omitted = edge.omits?.(route) ?? [];
      expect(same(given, omitted)).toMatchObject(same(expected, omitted) as object);
      const words = (entries: Record<string, unknown>[], via: string) =>
        entries.map(({ via: by, subjectName: name, ...entry }) =>
          // Each edge has its own subject.
          same({ ...entry, subjectName: typeof name === 'string' ? '<NAME>' : name, edge: by === via }),
        );
      expect(words(byEdge, edge.via)).toEqual(words(byRest, rest.via));
    });

    it('refuses the same roles', async () => {
      const token = await tokenFor(row.role);
      const sendRequest = await row.request(world, token);
      const { token: _, ...anonymous } = sendRequest;
      const callers: (string | undefined)[] = [undefined];
      if (row.role === 'user' || row.role === 'admin' || row.role === 'owner') callers.push(world.tokens.viewer);
      if (row.role !== 'open') callers.push(await service.token(v7()));
      if (row.scope !== null)
        callers.push(keys.get(`${edge.name} ${row.scope === 'read:audit' ? 'read:homes' : 'read:audit'}`));
      if (row.person && row.scope !== null) callers.push(keys.get(`${edge.name} ${row.scope}`));
      for (const caller of callers) {
        const requested = { ...(await request(anonymous, caller)), token: caller };
        if (!edge.has(requested)) continue;
        const expected = await rest.call(requested);
        // Skipped if every role is allowed.
        if (codeIn(expected) === null) continue;
        expect([caller, refusalIn(await edge.call(requested))]).toEqual([caller, refusalIn(expected)]);
      }
    });

    if (operation.changes) {
      it(`${row.goesOn ? 'goes on' : 'is refused'} under maintenance alike`, async () => {
        const token = await tokenFor(row.role);
        const requested = await request(await row.request(world, token), token);
        if (!edge.has(requested)) return;
        await service.flags.set('maintenance_mode', true);
        try {
          expect(codeIn(await edge.call(requested))).toBe(row.goesOn ? null : 'MAINTENANCE');
        } finally {
          await service.flags.set('maintenance_mode', false);
        }
      });
    }

    it.each(Object.entries(row.refusals ?? {}))('refuses %s in the same way', async (code, make) => {
      const [one, other] = await twice(() => make(world));
      const token = row.role === 'platform' ? world.operator : world.tokens.owner;
      const requested = await request(other, token);
      if (!edge.has(requested)) return;
      const expected = await rest.call(await request(one, token));
      const given = await edge.call(requested);
      // A dry run that the caller did not request is a conflict in REST, and a result elsewhere.
      if (code === 'DRY_RUN_REQUIRED') return void expect(same(given)).toMatchObject(same(expected) as object);
      expect(codeIn(expected)).toBe(code);
      // GraphQL refuses input it has no type for with its own errors.
      if (code === 'VALIDATION_FAILED' || codeIn(given) === 'VALIDATION_FAILED') {
        expect(codeIn(given)).toBe('VALIDATION_FAILED');
      } else expect(refusalIn(given)).toEqual(refusalIn(expected));
    });
  });
});
