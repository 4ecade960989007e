import { v7 } from 'uuid';
import { beforeEach, describe, expect, it } from 'vitest';
import { capabilities, categories } from '../../../../src/domain/capability-registry.ts';
import type { Manifest } from '../../../../src/domain/manifest.ts';
import { mine, other, service, withTwoTenants } from '../two-tenants.ts';

withTwoTenants();

const own = (more: object = {}) => ({ capabilities: [{ action: 'sing', ...more }] });

describe('the registry', () => {
  it('shows a viewer every capability, and the actions of every category', async () => {
    const viewer = { token: mine.tokens.viewer };
    const all = await mine.call('GET', '/manifest/capabilities', undefined, viewer);
    expect(all.status).toBe(200);
    expect(all.body).toEqual({ capabilities: JSON.parse(JSON.stringify(capabilities())) });
    const types = await mine.call('GET', '/manifest/types', undefined, viewer);
    expect(types.body).toEqual({ categories: categories() });
    expect(types.body.categories.light).toContain('set_brightness');
  });
});

describe('GET /devices/{deviceId}/manifest', () => {
  it('shows the automatic manifest of the category', async () => {
    const { device_id: id } = await mine.register({ device_type: 'smart-lock' });
    const { status, body } = await mine.call('GET', `/devices/${id}/manifest`, undefined, {
      token: mine.tokens.viewer,
    });
    expect(status).toBe(200);
    expect(Object.keys(body).sort()).toEqual(['capabilities', 'category', 'deviceId', 'tenantId', 'version']);
    expect(body).toMatchObject({ deviceId: id, tenantId: mine.tenantId, category: 'lock', version: 1 });
    expect(body.capabilities.find((one: { action: string }) => one.action === 'unlock')).toMatchObject({
      safetyClass: 'CRITICAL',
    });
  });

  it('has its version as ETag, by which a repeated GET is 304 and an update is conditional', async () => {
    const { device_id: id } = await mine.register();
    const path = `/devices/${id}/manifest`;
    const get = (headers: Record<string, string> = {}) => mine.call('GET', path, undefined, { headers });
    const first = await get();
    const tag = first.headers.get('etag') ?? '';
    expect([first.status, tag]).toEqual([200, expect.stringMatching(/^"1-[0-9a-f]{16}"$/)]);
    for (const known of [tag, `W/${tag}`, `"0", ${tag}`, '*']) {
      const again = await get({ 'if-none-match': known });
      expect([again.status, again.body, again.headers.get('etag')]).toEqual([304, '', tag]);
    }
    const put = (known: string) => mine.call('PUT', path, own(), { headers: { 'if-match': known } });
    const changed = await put(tag);
    const next = changed.headers.get('etag') ?? '';
    expect([changed.status, next]).toEqual([200, expect.stringMatching(/^"2-[0-9a-f]{16}"$/)]);
    expect((await put(tag)).status).toBe(409);
    const now = await get({ 'if-none-match': tag });
    expect([now.status, now.body.version, now.headers.get('etag')]).toEqual([200, 2, next]);
    // The version alone is a condition too.
    expect((await put('"2"')).status).toBe(200);
  });

  it('has another ETag where another build shows the same version in another way', async () => {
    const { device_id: id } = await mine.register();
    const get = (headers = {}) => mine.call('GET', `/devices/${id}/manifest`, undefined, { headers });
    const before = await get();
    const { manifests } = service.services;
    const shown = manifests.peek({ id, manifestVersion: 1 }) as Manifest;
    const raised = shown.capabilities.map((one) => ({ ...one, safetyClass: 'CRITICAL' as const }));
    manifests.put({ ...shown, capabilities: raised });
    const now = await get({ 'if-none-match': before.headers.get('etag') ?? '' });
    expect([now.status, now.body.version, now.body.capabilities]).toEqual([200, 1, raised]);
  });

  it("is not found if the device has none, is missing or is another tenant's", async () => {
    const { device_id: bare } = await mine.register({ device_type: 'esp32' });
    const { device_id: theirs } = await other.register();
    for (const id of [bare, theirs, v7(), 'x']) {
      const answer = await mine.call('GET', `/devices/${id}/manifest`);
      expect([answer.status, answer.body.code]).toEqual([404, 'NOT_FOUND']);
    }
  });
});

describe('POST /devices/{deviceId}/manifest', () => {
  it('replaces the automatic manifest once', async () => {
    const { device_id: id } = await mine.register();
    const body = own({ description: 'Sing a song', safetyClass: 'CRITICAL', verify_within_s: 3 });
    const made = await mine.call('POST', `/devices/${id}/manifest`, body);
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      deviceId: id,
      tenantId: mine.tenantId,
      category: 'light',
      version: 2,
      capabilities: [
        {
          id: 1,
          action: 'sing',
          description: 'Sing a song',
          safetyClass: 'CRITICAL',
          paramSchema: expect.any(Object),
          supportsDryRun: false,
          verify_within_s: 3,
        },
      ],
    });
    expect((await mine.call('GET', `/devices/${id}/manifest`)).body).toEqual(made.body);
    expect((await mine.call('GET', `/devices/${id}`)).body.device.manifest_version).toBe(2);
    const again = await mine.call('POST', `/devices/${id}/manifest`, body);
    expect([again.status, again.body.code]).toEqual([409, 'CONFLICT']);
  });

  it('gives a device without a category its first manifest', async () => {
    const { device_id: id } = await mine.register({ device_type: 'esp32' });
    const made = await mine.call('POST', `/devices/${id}/manifest`, { category: 'valve', ...own() });
    expect(made.body).toMatchObject({ version: 1, category: 'valve' });
  });

  it('returns the same to a repeat with the same Idempotency-Key', async () => {
    const { device_id: id } = await mine.register();
    const headers = { 'idempotency-key': v7() };
    const first = await mine.call('POST', `/devices/${id}/manifest`, own(), { headers });
    const again = await mine.call('POST', `/devices/${id}/manifest`, own(), { headers });
    expect([again.status, again.body]).toEqual([201, first.body]);
  });

  it.each([
    ['a RESTRICTED action', { capabilities: [{ action: 'revoke' }] }],
    ['a lowered class', { capabilities: [{ action: 'unlock', safetyClass: 'NORMAL' }] }],
    ['a keyword outside the subset', own({ paramSchema: { properties: { x: { pattern: '^(a+)+$' } } } })],
    ['a template of an unknown parameter', own({ expectedState: { on: { $param: 'x' } } })],
    ['an action twice', { capabilities: [{ action: 'a' }, { action: 'a' }] }],
    ['101 capabilities', { capabilities: Array.from({ length: 101 }, (_, n) => ({ action: `a${n}` })) }],
    ['an unknown category', { category: 'boat', ...own() }],
    ['an unknown field', { ...own(), owner: 'me' }],
    ['a version', { ...own(), version: 1 }],
    ['no capabilities at all', {}],
  ])('refuses %s', async (_, body) => {
    const { device_id: id } = await mine.register();
    const answer = await mine.call('POST', `/devices/${id}/manifest`, body);
    expect([answer.status, answer.body.code]).toEqual([400, 'VALIDATION_FAILED']);
    expect(answer.body.errors.length).toBeGreaterThan(0);
  });

  it('of a category alone gives the device the one of the registry, which its own can replace and it can replace', async () => {
    const { device_id: id } = await mine.register({ device_type: 'esp32' });
    const path = `/devices/${id}/manifest`;
    const adopted = await mine.call('POST', path, { category: 'switch' });
    expect([adopted.status, adopted.body.category, adopted.body.version]).toEqual([201, 'switch', 1]);
    const known = (await mine.call('GET', '/manifest/types')).body.categories.switch;
    expect(adopted.body.capabilities.map(({ action }: { action: string }) => action)).toEqual(known);
    expect(adopted.body.capabilities[0]).toMatchObject({ action: 'turn_on', expectedState: { on: true } });
    expect((await mine.call('POST', `/device/${id}/command`, { action: 'turn_on' })).status).toBe(202);
    expect((await mine.call('POST', path, own())).body).toMatchObject({
      version: 2,
      capabilities: [{ action: 'sing' }],
    });
    const back = await mine.call('PUT', path, { category: 'light', version: 2 });
    expect([back.status, back.body.category, back.body.version]).toEqual([200, 'light', 3]);
    expect((await mine.call('GET', path)).body).toEqual(back.body);
  });

  it('needs capabilities or a known category', async () => {
    const { device_id: id } = await mine.register({ device_type: 'esp32' });
    const empty = await mine.call('POST', `/devices/${id}/manifest`, {});
    expect(empty.body).toMatchObject({ code: 'VALIDATION_FAILED', errors: [{ path: 'capabilities' }] });
    expect((await mine.call('POST', `/devices/${id}/manifest`, { category: 'boat' })).status).toBe(400);
  });

  it('requires the role admin and an active device of the tenant', async () => {
    const { device_id: id } = await mine.register();
    const { device_id: theirs } = await other.register();
    const asUser = await mine.call('POST', `/devices/${id}/manifest`, own(), { token: mine.tokens.user });
    expect(asUser.status).toBe(403);
    expect((await mine.call('POST', `/devices/${theirs}/manifest`, own())).status).toBe(404);
    await mine.call('POST', `/device/${id}/revoke`);
    const revoked = await mine.call('POST', `/devices/${id}/manifest`, own());
    expect([revoked.status, revoked.body.code]).toEqual([403, 'DEVICE_REVOKED']);
  });
});

it('keeps the units of a manifest, and refuses texts that are none', async () => {
  const { device_id: id } = await mine.register({ device_type: 'aquarium_pump' });
  const level = (unit: string) => ({ type: 'object', properties: { level: { type: 'number', unit } } });
  const body = (unit: string, units: object) => ({
    capabilities: [{ action: 'set_level', paramSchema: level(unit), units }],
  });
  const refused = await mine.call('POST', `/devices/${id}/manifest`, body('l per min', { water: '' }));
  expect(refused.body.errors.map(({ path }: { path: string }) => path)).toEqual(['capabilities.0.units.water']);
  const tooLong = await mine.call('POST', `/devices/${id}/manifest`, body('l per min', {}));
  expect(tooLong.body.errors.map(({ path }: { path: string }) => path)).toEqual([
    'capabilities.0.paramSchema.properties.level.unit',
  ]);
  const many = Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`p${n}`, 'W']));
  expect((await mine.call('POST', `/devices/${id}/manifest`, body('l/min', many))).status).toBe(400);
  const stored = await mine.call('POST', `/devices/${id}/manifest`, body('l/min', { water: '°C' }));
  expect(stored.status).toBe(201);
  const { body: read } = await mine.call('GET', `/devices/${id}/manifest`);
  expect(read.capabilities).toMatchObject([{ paramSchema: level('l/min'), units: { water: '°C' } }]);
});

describe('PUT /devices/{deviceId}/manifest', () => {
  let id: string;
  const put = (body: object, headers: Record<string, string> = {}) =>
    mine.call('PUT', `/devices/${id}/manifest`, body, { headers });

  beforeEach(async () => {
    id = (await mine.register()).device_id;
    await mine.call('POST', `/devices/${id}/manifest`, own());
  });

  it('replaces the named version, in the body or in If-Match', async () => {
    const second = await put({ ...own({ description: 'b' }), version: 2 });
    expect([second.status, second.body.version]).toEqual([200, 3]);
    const third = await put(own({ description: 'c' }), { 'if-match': '"3"' });
    expect([third.status, third.body.version, third.body.capabilities[0].description]).toEqual([200, 4, 'c']);
    expect((await mine.call('GET', `/devices/${id}/manifest`)).body).toEqual(third.body);
  });

  it('refuses an older, a newer and a missing version', async () => {
    const answers = [
      await put({ ...own(), version: 1 }),
      await put({ ...own(), version: 3 }),
      await put(own()),
      await put(own(), { 'if-match': '"1"' }),
      await put(own(), { 'if-match': 'W/"2"' }),
      await put(own(), { 'if-match': '*' }),
      await put({ ...own(), version: 2 }, { 'if-match': '"1"' }),
    ];
    for (const { status, body } of answers) expect([status, body.code]).toEqual([409, 'CONFLICT']);
    expect((await put({ ...own(), version: 0 })).status).toBe(400);
  });

  it('accepts one of two concurrent updates', async () => {
    const answers = await Promise.all(['a', 'b'].map((description) => put({ ...own({ description }), version: 2 })));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
    const winner = answers.find(({ status }) => status === 200);
    expect((await mine.call('GET', `/devices/${id}/manifest`)).body).toEqual(winner?.body);
  });

  it('replaces an automatic manifest too, which then belongs to the tenant', async () => {
    id = (await mine.register()).device_id;
    expect((await put({ ...own(), version: 1 })).body.version).toBe(2);
    expect((await mine.call('POST', `/devices/${id}/manifest`, own())).status).toBe(409);
  });

  it('refuses to replace a missing manifest', async () => {
    id = (await mine.register({ device_type: 'esp32' })).device_id;
    expect((await put({ ...own(), version: 1 })).status).toBe(404);
  });

  it('requires the role admin and a device of the tenant', async () => {
    const body = { ...own(), version: 2 };
    const asUser = await mine.call('PUT', `/devices/${id}/manifest`, body, { token: mine.tokens.user });
    expect(asUser.status).toBe(403);
    id = (await other.register()).device_id;
    expect((await put(body)).status).toBe(404);
  });
});
