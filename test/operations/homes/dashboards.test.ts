import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { defaultQuotas } from '../../../src/domain/quotas.ts';
import type { HttpService } from '../../support/http-service.ts';
import { slow } from '../../support/slow.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
});
beforeEach(async () => {
  service.services.settings.quotas = defaultQuotas;
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

const note = { kind: 'text', id: 'note', x: 0, y: 0, w: 4, h: 2, text: '**Bins** on Tuesday' };
const create = (body: object, more?: object) => mine.call('POST', '/dashboards', { name: 'Hallway', ...body }, more);
const replace = (id: string, body: object, more?: object) =>
  mine.call('PUT', `/dashboards/${id}`, { name: 'Hallway', ...body }, more);
const graphql = async (query: string, variables: object) =>
  (await service.call('POST', '/graphql', { token: mine.tokens.owner, body: { query, variables } })).body;

describe('a dashboard', () => {
  it('is created, listed without its tiles, replaced and deleted', async () => {
    const made = await create({ home_id: mine.homeId, tiles: [note] });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    const { dashboard } = made.body;
    expect(dashboard).toMatchObject({ name: 'Hallway', home_id: mine.homeId, version: 1, tiles: [note] });
    expect(dashboard.created_by).toMatch(/^user:/);
    const { tiles: _, ...summary } = dashboard;
    const list = await mine.call('GET', `/dashboards?home_id=${mine.homeId}`);
    expect(list.body).toEqual({ dashboards: [{ ...summary, tile_count: 1 }], count: 1, next_cursor: null });
    const changed = await replace(dashboard.id, { version: 1, name: 'Landing', tiles: [{ ...note, x: 8 }] });
    expect(changed.body.dashboard).toMatchObject({ name: 'Landing', home_id: null, version: 2, tiles: [{ x: 8 }] });
    expect((await mine.call('GET', `/dashboards/${dashboard.id}`)).body).toEqual(changed.body);
    expect((await mine.call('GET', `/dashboards?home_id=${mine.homeId}`)).body.count).toBe(0);
    expect((await mine.call('DELETE', `/dashboards/${dashboard.id}`)).status).toBe(204);
    expect((await mine.call('GET', `/dashboards/${dashboard.id}`)).status).toBe(404);
    expect((await mine.call('DELETE', `/dashboards/${dashboard.id}`)).status).toBe(404);
  });

  it('has a tile of each kind, and nothing that its kind does not have', async () => {
    const { device_id } = await mine.register();
    const place = (id: string, y: number) => ({ id, x: 0, y, w: 12, h: 1 });
    const tiles = [
      { kind: 'value', ...place('a', 0), device_id, property: 'on' },
      { kind: 'sparkline', ...place('b', 1), device_id, property: 'brightness' },
      { kind: 'chart', ...place('c', 2), series: [{ device_id, property: 'brightness' }], range: 'week' },
      { kind: 'room', ...place('d', 3), home_id: mine.homeId, room_id: mine.homeId },
      { kind: 'command', ...place('e', 4), device_id, action: 'set_brightness', params: { level: 20 } },
      { kind: 'confirmations', ...place('f', 5), title: 'Waiting' },
      { kind: 'text', ...place('g', 6), text: 'Bins' },
    ];
    const made = await create({ tiles });
    expect(made.body.dashboard.tiles).toEqual(tiles);
    const errors = async (tile: object) => {
      const { status, body } = await create({ tiles: [tile] });
      expect([status, body.code]).toEqual([400, 'VALIDATION_FAILED']);
      return body.errors.map(({ path }: { path: string }) => path);
    };
    expect(await errors({ kind: 'value', ...place('a', 0), device_id })).toEqual(['tiles.0.property']);
    expect(await errors({ ...note, device_id })).toEqual(['tiles.0']);
    expect(await errors({ ...note, x: 9 })).toEqual(['tiles.0.w']);
    expect(await errors({ ...note, text: 'bell \u0007' })).toEqual(['tiles.0.text']);
    expect(await errors({ kind: 'camera', ...place('a', 0) })).toEqual(['tiles.0.kind']);
  });

  it('has tiles that do not overlap, and 60 at most', async () => {
    const overlapping = await create({ tiles: [note, { ...note, id: 'other', x: 3, y: 1 }] });
    expect(overlapping.body.errors).toEqual([{ path: 'tiles.1.y', message: 'overlaps the tile note' }]);
    const many = Array.from({ length: 61 }, (_, y) => ({ ...note, id: `n${y}`, y, h: 1 }));
    expect((await create({ tiles: many })).status).toBe(400);
    expect((await create({ tiles: many.slice(1) })).status).toBe(201);
  });

  it('is replaced by one of two requests for the same version; the other learns who was first', async () => {
    const { id } = (await create({})).body.dashboard;
    const answers = await Promise.all(['One', 'Two'].map((name) => replace(id, { version: 1, name })));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
    const conflict = answers.find(({ status }) => status === 409)?.body;
    expect(conflict).toMatchObject({
      code: 'CONFLICT',
      detail: expect.stringMatching(/^The dashboard has version 2, which user:/),
    });
    expect((await mine.call('GET', `/dashboards/${id}`)).body.dashboard.version).toBe(2);
  });

  it('is created once with an Idempotency-Key', async () => {
    const headers = { 'idempotency-key': 'board-1' };
    const first = await create({ tiles: [note] }, { headers });
    const again = await create({ tiles: [note] }, { headers });
    expect(again.body).toEqual(first.body);
    expect((await mine.call('GET', '/dashboards')).body.count).toBe(1);
  });

  it('is read by viewers, and changed by admins with the scope write:homes', async () => {
    const { id } = (await create({ tiles: [note] })).body.dashboard;
    const as = (token: string) => ({ token });
    for (const role of ['viewer', 'user', 'admin'] as const) {
      const token = mine.tokens[role];
      expect((await mine.call('GET', `/dashboards/${id}`, undefined, as(token))).status).toBe(200);
      expect((await create({}, as(token))).status).toBe(role === 'admin' ? 201 : 403);
    }
    const keyed = async (scopes: string[]) =>
      (await mine.call('POST', '/auth/api-keys', { name: 'Wall', scopes })).body.key as string;
    const reader = await keyed(['read:homes']);
    expect((await mine.call('GET', '/dashboards', undefined, as(reader))).status).toBe(200);
    expect((await replace(id, { version: 1 }, as(reader))).body.code).toBe('INSUFFICIENT_SCOPE');
    const writer = await keyed(['write:homes']);
    const { device_id } = await mine.register();
    const button = { kind: 'command', id: 'c', x: 4, y: 0, w: 2, h: 2, device_id, action: 'turn_on' };
    expect((await replace(id, { version: 1, tiles: [button] }, as(writer))).body).toMatchObject({
      ...{ code: 'INSUFFICIENT_SCOPE', detail: expect.stringContaining('execute:commands') },
    });
    const changed = await replace(id, { version: 1 }, as(writer));
    expect(changed.body.dashboard.changed_by).toMatch(/^key:/);
  });

  it('is not shown to restricted keys, because it may name any device', async () => {
    const { id } = (await create({ tiles: [note] })).body.dashboard;
    const made = await mine.call('POST', '/auth/api-keys', {
      ...{ name: 'One home', scopes: ['all'], restrict_to: { homes: [mine.homeId] } },
    });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    const token = made.body.key as string;
    for (const path of ['/dashboards', `/dashboards/${id}`])
      expect((await mine.call('GET', path, undefined, { token })).body.code).toBe('KEY_RESTRICTED');
  });

  it('is not found by another tenant, which cannot use its homes either', async () => {
    const { id } = (await create({ tiles: [note] })).body.dashboard;
    const other = await makeTestTenant(service);
    expect((await other.call('GET', `/dashboards/${id}`)).status).toBe(404);
    expect((await other.call('PUT', `/dashboards/${id}`, { version: 1, name: 'Mine' })).status).toBe(404);
    expect((await other.call('DELETE', `/dashboards/${id}`)).status).toBe(404);
    expect((await other.call('GET', '/dashboards')).body.count).toBe(0);
    expect((await create({ home_id: other.homeId })).body).toMatchObject({ status: 404, detail: 'Home not found.' });
  });

  it('keeps its tiles when their home and device are deleted, and can still be changed', async () => {
    const home = (await mine.call('POST', '/homes', { home_name: 'Cabin' })).body.id;
    const { device_id } = await mine.register();
    const value = { kind: 'value', id: 'v', x: 0, y: 0, w: 3, h: 2, device_id, property: 'on' };
    const { id } = (await create({ home_id: home, tiles: [value] })).body.dashboard;
    expect((await mine.call('DELETE', `/homes/${home}`)).status).toBe(204);
    expect((await mine.call('POST', `/device/${device_id}/revoke`, {})).status).toBe(200);
    expect((await mine.call('DELETE', `/devices/${device_id}`)).status).toBe(204);
    const kept = await replace(id, { version: 1, home_id: home, tiles: [value, { ...note, x: 4 }] });
    expect(kept.body.dashboard).toMatchObject({ version: 2, home_id: home, tiles: [value, { id: 'note' }] });
  });

  it('has no values of write-only parameters, and shows none that a later manifest marks', async () => {
    const { device_id } = await mine.register({ device_type: 'thing' });
    const manifest = (writeOnly: boolean) => [
      {
        action: 'join_network',
        paramSchema: { type: 'object', properties: { ssid: { type: 'string' }, pin: { type: 'string', writeOnly } } },
      },
    ];
    const path = `/devices/${device_id}/manifest`;
    expect((await mine.call('POST', path, { capabilities: manifest(false) })).status).toBe(201);
    const tile = {
      ...{ kind: 'command', id: 'c', x: 0, y: 0, w: 3, h: 2, device_id },
      ...{ action: 'join_network', params: { ssid: 'guests', pin: '4711' } },
    };
    const { id } = (await create({ tiles: [tile] })).body.dashboard;
    expect((await mine.call('PUT', path, { version: 1, capabilities: manifest(true) })).status).toBe(200);
    expect((await mine.call('GET', `/dashboards/${id}`)).body.dashboard.tiles[0].params).toEqual({
      ...{ ssid: 'guests', pin: { write_only: true } },
    });
    const refused = await create({ tiles: [tile] });
    expect(refused.body.errors).toEqual([
      { path: 'tiles.0.params', message: 'must not contain values of write-only parameters' },
    ]);
    expect(JSON.stringify(refused.body)).not.toContain('4711');
    // The manifest is deleted with the device.
    expect((await mine.call('POST', `/device/${device_id}/revoke`, {})).status).toBe(200);
    expect((await mine.call('DELETE', `/devices/${device_id}`)).status).toBe(204);
    const { tiles } = (await mine.call('GET', `/dashboards/${id}`)).body.dashboard;
    expect(tiles[0].params).toEqual({ ssid: { write_only: true }, pin: { write_only: true } });
    expect((await replace(id, { version: 1, tiles })).status).toBe(200);
  });

  it('is listed without reading its tiles, which are 256 KiB in one dashboard at most', async () => {
    const { id } = (await create({ tiles: [note] })).body.dashboard;
    const { dashboards } = service.services.store;
    const { items } = await dashboards.list(mine.tenantId, null, 10);
    expect(items).toMatchObject([{ id, tileCount: 1 }]);
    expect(items[0]).not.toHaveProperty('tiles');
  });

  it('counts towards a quota, also when several are created at once', async () => {
    service.services.settings.quotas = { base: { ...defaultQuotas.base, dashboards: 2 }, factors: {} };
    const answers = await Promise.all([1, 2, 3].map(() => create({})));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 403]);
    expect((await create({})).body).toMatchObject({
      ...{ code: 'QUOTA_REACHED', detail: 'A tenant of the tier free has at most 2 dashboards.' },
    });
  });

  it('leaves its changes in the audit log, by its id', async () => {
    const { id } = (await create({})).body.dashboard;
    await replace(id, { version: 1, tiles: [note] });
    await mine.call('DELETE', `/dashboards/${id}`);
    const { body } = await mine.call('GET', `/audit?subject=dashboard:${id}`);
    expect(body.entries.map(({ action }: { action: string }) => action)).toEqual([
      ...['deleteDashboard', 'replaceDashboard', 'createDashboard'],
    ]);
  });
});

describe('a dashboard in GraphQL', () => {
  const fields = 'id version tiles { kind id x y w h text params action deviceId }';

  it('is created, replaced with its version, and listed', slow, async () => {
    const { device_id: deviceId } = await mine.register();
    const words = { ...note, kind: 'TEXT' };
    const button = { kind: 'COMMAND', id: 'c', x: 4, y: 0, w: 2, h: 2, deviceId, action: 'turn_on', params: { a: 1 } };
    const made = await graphql(
      `mutation ($input: CreateDashboardInput!) {
        createDashboard(input: $input) { ... on CreateDashboardResult { dashboard { ${fields} } } }
      }`,
      { input: { name: 'Hallway', tiles: [words, button] } },
    );
    expect(made.errors).toBeUndefined();
    const { dashboard } = made.data.createDashboard;
    expect(dashboard).toMatchObject({ version: 1, tiles: [words, button] });
    const change = `mutation ($input: ReplaceDashboardInput!) {
      replaceDashboard(input: $input) {
        ... on ReplaceDashboardResult { dashboard { version tiles { id } } }
        ... on Refused { code }
      }
    }`;
    const replaced = await graphql(change, { input: { id: dashboard.id, version: 1, name: 'Landing' } });
    expect(replaced.data.replaceDashboard.dashboard).toEqual({ version: 2, tiles: [] });
    const outdated = await graphql(change, { input: { id: dashboard.id, version: 1, name: 'Landing' } });
    expect(outdated.data.replaceDashboard).toEqual({ code: 'CONFLICT' });
    const list = await graphql('{ dashboards { nodes { name tileCount changedBy } } }', {});
    expect(list.data.dashboards.nodes).toMatchObject([{ name: 'Landing', tileCount: 0 }]);
  });
});
