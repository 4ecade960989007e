import { z } from 'zod';
import { type Dashboard, paramsOf, type Tile, tileRecord, tilesInput } from '../../domain/dashboard.ts';
import { iso } from '../../domain/iso-time.ts';
import { jsonEqual } from '../../domain/json/value.ts';
import { memorySourceOf } from '../../domain/memory.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { allowsScope } from '../../domain/scopes.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { JsonObject, Uuid } from '../../domain/values.ts';
import { maskAllParams, maskParams } from '../../domain/write-only-params.ts';
import { loadTargets } from '../commands/gateway-facts.ts';
import {
  cursorAfter,
  cursorsIn,
  displayName,
  idOf,
  isoTime,
  listCount,
  nextCursor,
  notFound,
  paging,
  startOf,
} from '../inputs.ts';
import { type Caller, operation, type Services, tenantOf } from '../operation.ts';
import { withinQuota } from '../quota-checks.ts';

// Dashboards (decision 75). A tile names devices, homes and rooms by their ids and shows nothing of them itself: the reader
// reads them with their own permissions. So ids that do not exist are accepted, also after a deletion.

const author = (what: string) => z.string().meta({ description: `${what}: \`user:<id>\` or \`key:<prefix>\`` });
const summaryMembers = {
  id: uuid,
  name: z.string(),
  home_id: uuid.nullable().meta({ description: 'The home that it belongs to, which may have been deleted' }),
  version: z.int().meta({ description: '1 after the creation, and one more after each change' }),
  created_by: author('Creator'),
  created_at: isoTime,
  changed_by: author('Author of the last change'),
  changed_at: isoTime,
};
const summary = z
  .object({ ...summaryMembers, tile_count: z.int() })
  .meta({ id: 'DashboardSummary', description: 'A dashboard without its tiles' });
const dashboard = z.object({ ...summaryMembers, tiles: z.array(tileRecord) }).meta({ id: 'Dashboard' });

const members = ({ id, name, homeId, version, ...one }: Omit<Dashboard, 'tiles'>) => ({
  ...{ id, name, home_id: homeId, version, created_by: one.createdBy, created_at: iso(one.createdAt) },
  ...{ changed_by: one.changedBy, changed_at: iso(one.changedAt) },
});
const bodyOf = (one: Dashboard) => ({ dashboard: { ...members(one), tiles: [...one.tiles] } });

type MaskServices = Pick<Services, 'actors' | 'manifests' | 'sessions'>;

/**
 * The tiles without the values of `writeOnly` parameters (decision 57): what was stored before a manifest marked them is not
 * shown. `unknown` has the parameters for a device that does not exist, of which no manifest says what is marked.
 */
async function maskedTiles(
  services: MaskServices,
  caller: Caller,
  { tiles, unknown }: { tiles: readonly Tile[]; unknown(params: JsonObject): JsonObject },
): Promise<Tile[]> {
  const commanded = tiles.flatMap((tile) => (tile.kind === 'command' ? [tile.device_id] : []));
  const targets = commanded.length === 0 ? null : await loadTargets(services, caller, [...new Set(commanded)]);
  return tiles.map((tile) => {
    if (tile.kind !== 'command' || tile.params === undefined) return tile;
    const target = targets?.get(tile.device_id);
    const params = paramsOf(tile);
    return {
      ...tile,
      params: target === undefined ? unknown(params) : maskParams(target.manifest, tile.action, params),
    };
  });
}

/** Null if the caller may place these tiles: a button leads other users to a command. */
function commandRefusal({ scopes }: Caller, tiles: readonly Tile[]): ReturnType<typeof refuse> | null {
  if (tiles.every(({ kind }) => kind !== 'command') || allowsScope(scopes, 'execute:commands')) return null;
  return refuse('INSUFFICIENT_SCOPE', 'A dashboard with command tiles also requires execute:commands.');
}

/** Null if no tile has a value of a `writeOnly` parameter, which every reader of the dashboard would see. */
async function secretRefusal(
  services: MaskServices,
  caller: Caller,
  tiles: readonly Tile[],
): Promise<ReturnType<typeof refuse> | null> {
  const masked = await maskedTiles(services, caller, { tiles, unknown: (params) => params });
  const index = tiles.findIndex((tile, n) => {
    const other = masked[n];
    return tile.kind === 'command' && other?.kind === 'command' && !jsonEqual(paramsOf(tile), paramsOf(other));
  });
  if (index === -1) return null;
  const [path, message] = [`tiles.${index}.params`, 'must not contain values of write-only parameters'];
  return refuse('VALIDATION_FAILED', `${path}: ${message}`, { errors: [{ path, message }] });
}

async function homeRefusal(
  { store }: Pick<Services, 'store'>,
  tenantId: Uuid,
  homeId: Uuid | null,
): Promise<ReturnType<typeof refuse> | null> {
  return homeId === null || (await store.records.home(tenantId, homeId)) !== null ? null : notFound('home');
}

async function findDashboard(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  id: Uuid,
): Promise<Outcome<Dashboard>> {
  const found = await store.dashboards.find(tenantOf(caller), id);
  return found === null ? notFound('dashboard') : done(found);
}

const conflict = ({ version, changedBy, changedAt }: Dashboard) =>
  refuse('CONFLICT', `The dashboard has version ${version}, which ${changedBy} saved at ${iso(changedAt)}.`);

const input = {
  name: displayName,
  home_id: idOf('home').nullable().default(null),
  tiles: tilesInput.default([]),
};

// For the API reference.
const TILES = [
  {
    ...{ kind: 'value' as const, id: 'temperature', title: 'Living room', x: 0, y: 0, w: 3, h: 2 },
    ...{ device_id: '0195d9a2-7f00-7000-8000-000000000003', property: 'temperature' },
  },
  {
    ...{ kind: 'command' as const, id: 'light', x: 3, y: 0, w: 3, h: 2 },
    ...{ device_id: '0195d9a2-7f00-7000-8000-000000000004', action: 'turn_on' },
  },
];
const SUMMARY = {
  id: '0195d9a2-7f00-7000-8000-00000000000d',
  name: 'Hallway',
  home_id: '0195d9a2-7f00-7000-8000-000000000001',
  version: 1,
  created_by: 'user:0195d9a2-7f00-7000-8000-000000000005',
  created_at: '2026-03-01T12:00:00.000Z',
  changed_by: 'user:0195d9a2-7f00-7000-8000-000000000005',
  changed_at: '2026-03-01T12:00:00.000Z',
};
const GIVEN = { name: SUMMARY.name, home_id: SUMMARY.home_id, tiles: TILES };

export const listDashboards = operation({
  name: 'listDashboards',
  summary: "List the tenant's dashboards without their tiles, newest first",
  input: z.strictObject({
    home_id: idOf('home').optional().meta({ description: 'Only dashboards of this home' }),
    ...paging,
  }),
  output: z.object({ dashboards: z.array(summary), count: listCount, next_cursor: nextCursor }),
  role: 'viewer',
  scope: 'read:homes',
  changes: false,
  refuses: ['NOT_FOUND'],
  example: { output: { dashboards: [{ ...SUMMARY, tile_count: TILES.length }], count: 1, next_cursor: null } },
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const { home_id: homeId = null } = input;
    const listing = { route: 'dashboards', filters: { home_id: homeId ?? undefined } };
    const start = startOf(listing, input.cursor);
    if (!start.ok) return start;
    const page = await store.dashboards.list(tenantOf(caller), homeId, input.limit, start.value);
    const dashboards = page.items.map((one) => ({ ...members(one), tile_count: one.tileCount }));
    return done({
      body: { dashboards, count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

export const getDashboard = operation({
  name: 'getDashboard',
  summary: 'Show a dashboard with its tiles',
  input: z.strictObject({ id: idOf('dashboard') }),
  output: z.object({ dashboard }),
  role: 'viewer',
  scope: 'read:homes',
  changes: false,
  refuses: ['NOT_FOUND'],
  example: { output: { dashboard: { ...SUMMARY, tiles: TILES } } },
  needs: ['actors', 'manifests', 'sessions', 'store'],
  async run(services, { input, caller }) {
    const found = await findDashboard(services, caller, input.id);
    if (!found.ok) return found;
    const tiles = await maskedTiles(services, caller, { tiles: found.value.tiles, unknown: maskAllParams });
    return done({ body: bodyOf({ ...found.value, tiles }) });
  },
});

export const createDashboard = operation({
  name: 'createDashboard',
  summary: 'Create a dashboard',
  input: z.strictObject(input),
  output: z.object({ dashboard }),
  role: 'admin',
  scope: 'write:homes',
  changes: true,
  auditSubject: (_, { dashboard: { id } }) => `dashboard:${id}`,
  refuses: ['NOT_FOUND', 'QUOTA_REACHED'],
  example: { input: GIVEN, output: { dashboard: { ...SUMMARY, tiles: TILES } } },
  needs: ['actors', 'clock', 'locks', 'manifests', 'newId', 'sessions', 'settings', 'store'],
  async run(services, { input, caller, idempotent }) {
    const { clock, newId, store } = services;
    const tenantId = tenantOf(caller);
    const { name, home_id: homeId, tiles } = input;
    const refused =
      commandRefusal(caller, tiles) ??
      (await homeRefusal(services, tenantId, homeId)) ??
      (await secretRefusal(services, caller, tiles));
    if (refused !== null) return refused;
    const insert = async () => {
      const [by, at] = [memorySourceOf(caller.principal), clock.now()];
      const made: Dashboard = {
        ...{ id: newId(), tenantId, name, homeId, version: 1, tiles },
        ...{ createdBy: by, createdAt: at, changedBy: by, changedAt: at },
      };
      const answer = { body: bodyOf(made) };
      await store.dashboards.insert(made, idempotent?.toRow(answer));
      return done(answer);
    };
    return withinQuota(services, tenantId, 'dashboards', () => store.dashboards.count(tenantId), insert);
  },
});

export const replaceDashboard = operation({
  name: 'replaceDashboard',
  summary: 'Replace the name, the home and the tiles of a dashboard; requires the version that it replaces',
  input: z.strictObject({
    id: idOf('dashboard'),
    version: z.int().min(1).meta({ description: 'The version that was read; 409 if it is not the current one' }),
    ...input,
  }),
  output: z.object({ dashboard }),
  role: 'admin',
  scope: 'write:homes',
  changes: true,
  auditSubject: ({ input }) => `dashboard:${input.id}`,
  refuses: ['NOT_FOUND', 'CONFLICT'],
  example: { input: { version: 1, ...GIVEN }, output: { dashboard: { ...SUMMARY, version: 2, tiles: TILES } } },
  needs: ['actors', 'clock', 'manifests', 'sessions', 'store'],
  async run(services, { input, caller, idempotent }) {
    const { clock, store } = services;
    const { id, version, name, home_id: homeId, tiles } = input;
    const found = await findDashboard(services, caller, id);
    if (!found.ok) return found;
    if (found.value.version !== version) return conflict(found.value);
    const { tenantId } = found.value;
    const refused =
      commandRefusal(caller, tiles) ??
      // A dashboard of a home that was deleted can be changed as before.
      (homeId === found.value.homeId ? null : await homeRefusal(services, tenantId, homeId)) ??
      (await secretRefusal(services, caller, tiles));
    if (refused !== null) return refused;
    const change = { version: version + 1, changedBy: memorySourceOf(caller.principal), changedAt: clock.now() };
    const made: Dashboard = { ...found.value, name, homeId, tiles, ...change };
    const answer = { body: bodyOf(made) };
    if (await store.dashboards.replace(made, idempotent?.toRow(answer))) return done(answer);
    // Changed or deleted in the meantime.
    const current = await findDashboard(services, caller, id);
    return current.ok ? conflict(current.value) : current;
  },
});

export const deleteDashboard = operation({
  name: 'deleteDashboard',
  summary: 'Delete a dashboard',
  input: z.strictObject({ id: idOf('dashboard') }),
  output: z.null(),
  role: 'admin',
  scope: 'write:homes',
  changes: true,
  auditSubject: ({ input }) => `dashboard:${input.id}`,
  refuses: ['NOT_FOUND'],
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const deleted = await store.dashboards.delete(tenantOf(caller), input.id);
    return deleted ? done({ body: null }) : notFound('dashboard');
  },
});
