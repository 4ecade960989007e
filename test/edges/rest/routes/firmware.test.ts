import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { rolloutBucket } from '../../../../src/domain/firmware.ts';
import { type HttpService, startHttpService } from '../../../support/http-service.ts';
import { makeTestTenant, type TestTenant } from '../../../support/test-tenant.ts';

const MISSING = '0195d9a2-7f00-7000-8000-00000000ffff';
const SUM = 'ab'.repeat(32);
const HAND = { url: 'https://example.com/light.bin', checksum: SUM };

let service: HttpService;
let mine: TestTenant;
let type = '';
let types = 0;

beforeAll(async () => {
  service = await startHttpService();
  mine = await makeTestTenant(service);
});
beforeEach(() => {
  type = `light-${++types}`;
});
afterAll(() => service.close());

const create = (more: object = {}, sent = {}) =>
  mine.call('POST', '/firmware/release', { device_type: type, version: '1.5.0', ...more }, sent);
const drafted = async (more: object = {}): Promise<string> => {
  const { status, body } = await create({ ...HAND, ...more });
  if (status !== 201) throw new Error(JSON.stringify(body));
  return body.id;
};
const released = async (version: string, rollout_percent?: number): Promise<string> => {
  const id = await drafted({ version });
  const { status } = await mine.call('POST', `/firmware/${id}/release`, { rollout_percent });
  expect(status).toBe(200);
  return id;
};
const check = (more: object = {}) =>
  mine.call('POST', '/firmware/check', { device_type: type, current_version: '1.0.0', ...more });

describe('a draft', () => {
  it('is created with a URL and its checksum', async () => {
    const { status, body } = await create({ ...HAND, notes: 'Smoother\ndimming', checksum: SUM.toUpperCase() });
    expect(status).toBe(201);
    expect(body).toEqual({
      status: 'created',
      id: expect.any(String),
      release: {
        id: body.id,
        device_type: type,
        version: '1.5.0',
        ...HAND,
        ...{ size: null, signature: null, key_id: null },
        notes: 'Smoother\ndimming',
        status: 'draft',
        rollout_percent: 100,
        created_at: new Date(service.clock.now()).toISOString(),
        released_at: null,
      },
    });
    expect((await mine.call('GET', `/firmware/${body.id}`)).body).toEqual({ release: body.release });
  });

  it('can be created without an artifact', async () => {
    expect((await create()).body.release).toMatchObject({ url: null, checksum: null, notes: null, status: 'draft' });
  });

  it('is unique for its version in its tenant and type, regardless of build metadata', async () => {
    await create();
    for (const version of ['1.5.0', '1.5.0+7']) {
      expect(await create({ version })).toMatchObject({ status: 409, body: { code: 'CONFLICT' } });
    }
    expect((await create({ version: '1.5.0-rc.1' })).status).toBe(201);
    const other = await makeTestTenant(service);
    const theirs = await other.call('POST', '/firmware/release', { device_type: type, version: '1.5.0' });
    expect(theirs.status).toBe(201);
  });

  it('is created once for one Idempotency-Key', async () => {
    const headers = { 'Idempotency-Key': `key-${type}` };
    const first = await create({}, { headers });
    const again = await create({}, { headers });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(again.body).toEqual(first.body);
    expect((await create({ notes: 'x' }, { headers })).status).toBe(422);
  });

  it.each([
    [{ version: 'v1.5.0' }, 'version'],
    [{ version: '1.5' }, 'version'],
    [{ version: 15 }, 'version'],
    [{ device_type: '' }, 'device_type'],
    [{ url: HAND.url }, 'checksum'],
    [{ checksum: SUM }, 'checksum'],
    [{ ...HAND, checksum: SUM.slice(1) }, 'checksum'],
    [{ ...HAND, url: 'ftp://example.com/a' }, 'url'],
    [{ ...HAND, url: 'https://me:secret@example.com/a' }, 'url'],
    [{ ...HAND, url: 'http://169.254.169.254/' }, 'url'],
    [{ rollout_percent: 101 }, 'rollout_percent'],
    [{ rollout_percent: -1 }, 'rollout_percent'],
    [{ rollout_percent: 1.5 }, 'rollout_percent'],
    [{ notes: 'a\u0007' }, 'notes'],
    [{ status: 'released' }, 'status'],
  ])('is refused with %j', async (more, path) => {
    const { status, body } = await create(more);
    expect(status).toBe(400);
    expect(body.errors.map((error: { path: string }) => error.path)).toContain(path);
  });
});

describe('a release', () => {
  it('is rolled out to all devices by default', async () => {
    const id = await drafted();
    service.clock.advance(1_000);
    const { status, body } = await mine.call('POST', `/firmware/${id}/release`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: 'released', id, release: { id, status: 'released', rollout_percent: 100 } });
    expect(body.release.released_at).toBe(new Date(service.clock.now()).toISOString());
  });

  it('keeps the rollout of its draft, and its first release time', async () => {
    const id = await drafted({ rollout_percent: 5 });
    const first = await mine.call('POST', `/firmware/${id}/release`, {});
    expect(first.body.release.rollout_percent).toBe(5);
    service.clock.advance(1_000);
    const more = await mine.call('POST', `/firmware/${id}/release`, { rollout_percent: 50 });
    expect(more.body.release).toEqual({ ...first.body.release, rollout_percent: 50 });
    expect((await mine.call('POST', `/firmware/${id}/release`)).body.release.rollout_percent).toBe(50);
  });

  it('requires an artifact', async () => {
    const { body } = await create();
    expect(await mine.call('POST', `/firmware/${body.id}/release`)).toMatchObject({
      status: 409,
      body: { code: 'ILLEGAL_TRANSITION' },
    });
  });

  it('is withdrawn permanently, repeatably; a draft too', async () => {
    const id = await released('2.0.0');
    for (const _ of [1, 2]) {
      const { status, body } = await mine.call('POST', `/firmware/${id}/withdraw`);
      expect([status, body.status, body.id, body.release.status]).toEqual([200, 'withdrawn', id, 'withdrawn']);
    }
    const again = await mine.call('POST', `/firmware/${id}/release`);
    expect(again).toMatchObject({ status: 409, body: { code: 'ILLEGAL_TRANSITION' } });
    const draft = await drafted({ version: '3.0.0' });
    expect((await mine.call('POST', `/firmware/${draft}/withdraw`)).status).toBe(200);
    expect((await create({ version: '3.0.0' })).status).toBe(409);
  });

  it('two concurrent changes are applied one after the other', async () => {
    const id = await drafted();
    const answers = await Promise.all([
      mine.call('POST', `/firmware/${id}/withdraw`),
      mine.call('POST', `/firmware/${id}/release`),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 409]);
  });

  it('of another tenant is not found', async () => {
    const other = await makeTestTenant(service);
    const id = await released('2.0.0');
    for (const [method, path] of [
      ['GET', ''],
      ['POST', '/release'],
      ['POST', '/withdraw'],
      ['PUT', '/artifact'],
    ] as const) {
      const sent = method === 'PUT' ? { headers: { 'content-type': 'application/octet-stream' } } : {};
      const body = method === 'PUT' ? Buffer.from('x') : undefined;
      const theirs = await other.call(method, `/firmware/${id}${path}`, body, sent);
      const missing = await other.call(method, `/firmware/${MISSING}${path}`, body, sent);
      const noId = await other.call(method, `/firmware/nothing${path}`, body, sent);
      expect(theirs).toMatchObject({ status: 404, body: { code: 'NOT_FOUND' } });
      for (const answer of [missing, noId]) expect(answer.body.detail).toBe(theirs.body.detail);
    }
  });
});

describe('the list of releases', () => {
  it('is ordered newest first, in pages, by type and status', async () => {
    for (const version of ['1.0.0', '1.1.0', '1.2.0']) {
      service.clock.advance(10);
      await drafted({ version });
    }
    const query = `?device_type=${type}&limit=2`;
    const versions = (body: { releases: { version: string }[] }) => body.releases.map(({ version }) => version);
    const first = await mine.call('GET', `/firmware${query}`);
    expect(versions(first.body)).toEqual(['1.2.0', '1.1.0']);
    const next = `&cursor=${encodeURIComponent(first.body.next_cursor)}`;
    const second = await mine.call('GET', `/firmware${query}${next}`);
    expect([versions(second.body), second.body.next_cursor]).toEqual([['1.0.0'], null]);
    expect((await mine.call('GET', `/firmware?limit=2${next}`)).status).toBe(400);
    expect(versions((await mine.call('GET', `/firmware${query}&status=released`)).body)).toEqual([]);
    expect((await mine.call('GET', '/firmware?status=gone')).status).toBe(400);
  });
});

describe('roles', () => {
  it('a viewer reads, a user checks too, an admin changes', async () => {
    const id = await drafted();
    const requested = async (role: 'viewer' | 'user', method: string, path: string, body?: object) =>
      (await mine.call(method, path, body, { token: mine.tokens[role] })).status;
    const question = { device_type: type, current_version: '1.0.0' };
    expect(await requested('viewer', 'GET', '/firmware')).toBe(200);
    expect(await requested('viewer', 'GET', `/firmware/${id}`)).toBe(200);
    expect(await requested('viewer', 'POST', '/firmware/check', question)).toBe(403);
    expect(await requested('user', 'POST', '/firmware/check', question)).toBe(200);
    expect(await requested('user', 'POST', '/firmware/release', { device_type: type, version: '9.0.0' })).toBe(403);
    expect(await requested('user', 'POST', `/firmware/${id}/release`)).toBe(403);
    expect(await requested('user', 'POST', `/firmware/${id}/withdraw`)).toBe(403);
    expect(await requested('user', 'PUT', `/firmware/${id}/artifact`)).toBe(403);
  });
});

describe('a check for updates', () => {
  const nothing = { update_available: false, target_version: null, url: null, checksum: null };

  it('returns the highest released version above the current one', async () => {
    expect((await check()).body).toEqual(nothing);
    await released('1.9.0');
    await released('1.10.0');
    await drafted({ version: '2.0.0' });
    const found = { update_available: true, target_version: '1.10.0', ...HAND };
    expect(await check()).toMatchObject({ status: 200, body: found });
    expect((await check({ current_version: '1.10.0-rc.1' })).body).toEqual(found);
    expect((await check({ current_version: '1.10.0' })).body).toEqual(nothing);
    expect((await check({ device_type: `${type}x` })).body).toEqual(nothing);
  });

  it('does not return withdrawn releases', async () => {
    await released('1.9.0');
    const bad = await released('1.10.0');
    await mine.call('POST', `/firmware/${bad}/withdraw`);
    expect((await check()).body.target_version).toBe('1.9.0');
  });

  it('returns a rollout to its devices, and never without a device', async () => {
    const devices = await Promise.all(Array.from({ length: 12 }, () => mine.register({ device_type: type })));
    const id = await released('1.5.0', 30);
    for (const { device_id } of devices) {
      const held = rolloutBucket(id, device_id) < 30;
      expect((await check({ device_id })).body.update_available).toBe(held);
    }
    expect((await check()).body).toEqual(nothing);
    await mine.call('POST', `/firmware/${id}/release`, { rollout_percent: 100 });
    for (const { device_id } of devices) expect((await check({ device_id })).body.update_available).toBe(true);
    expect((await check()).body.update_available).toBe(true);
  });

  it('requires a device of the tenant and of the requested type', async () => {
    const { device_id } = await mine.register({ device_type: type });
    const other = await makeTestTenant(service);
    const question = { device_type: type, current_version: '1.0.0', device_id };
    expect((await other.call('POST', '/firmware/check', question)).status).toBe(404);
    expect((await check({ device_id: MISSING })).status).toBe(404);
    expect((await check({ device_id, device_type: 'lock' })).status).toBe(400);
  });

  it('accepts any version, and works during maintenance', async () => {
    expect((await check({ current_version: 'v1' })).status).toBe(200);
    expect((await check({ current_version: '' })).status).toBe(400);
    expect((await mine.call('POST', '/firmware/check', { device_type: type })).status).toBe(400);
    await service.flags.set('maintenance_mode', true);
    expect((await check()).status).toBe(200);
    expect((await create()).body.code).toBe('MAINTENANCE');
    await service.flags.set('maintenance_mode', false);
  });
});
