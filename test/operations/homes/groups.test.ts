import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';

let service: HttpService<MemoryStore>;
let token: string;
let tenantId: string;
let outsider: string;
let lamps: string[];
beforeAll(async () => {
  service = await startHttpService();
  ({ token, tenantId } = await service.owner());
  ({ token: outsider } = await service.owner('Strangers'));
  const { body } = await service.call('POST', '/v1/homes', { token, body: { home_name: 'Home' } });
  lamps = [];
  for (let n = 0; n < 3; n++) {
    const made = await service.call('POST', '/v1/device/register', {
      token,
      body: { device_type: 'smart_light', home_id: body.id },
    });
    lamps.push(made.body.device_id);
  }
});
afterAll(() => service.close());

const call: HttpService['call'] = (method, path, sent) => service.call(method, `/v1${path}`, { token, ...sent });
const create = (body: object) => call('POST', '/groups', { body });
const members = async (slug: string) =>
  (await call('GET', '/groups')).body.groups.find((group: { slug: string }) => group.slug === slug)?.device_ids;

describe('a group', () => {
  it('is created with a slug from its name, and with a number if the slug exists', async () => {
    const first = await create({ name: 'Évening Lights!', description: 'dusk', device_ids: [lamps[0], lamps[0]] });
    expect([first.status, first.body]).toEqual([201, { status: 'created', slug: 'evening-lights' }]);
    expect((await create({ name: 'evening lights' })).body.slug).toBe('evening-lights-2');
    const { body } = await call('GET', '/groups');
    expect(body.groups.at(-1)).toEqual({
      slug: 'evening-lights',
      name: 'Évening Lights!',
      description: 'dusk',
      device_ids: [lamps[0]],
    });
  });

  it('is shown alone, and renamed without changing its slug', async () => {
    const { slug } = (await create({ name: 'Renamed', description: 'before', device_ids: [lamps[1]] })).body;
    const shown = { slug, name: 'Renamed', description: 'before', device_ids: [lamps[1]] };
    expect((await call('GET', `/groups/${slug}`)).body).toEqual({ group: shown });
    const changed = await call('PATCH', `/groups/${slug}`, { body: { name: 'Other' } });
    expect([changed.status, changed.body]).toEqual([200, { group: { ...shown, name: 'Other' } }]);
    const cleared = await call('PATCH', `/groups/${slug}`, { body: { description: null } });
    expect(cleared.body).toEqual({ group: { ...shown, name: 'Other', description: null } });
    expect((await call('GET', '/groups/no-such')).status).toBe(404);
    expect((await call('PATCH', '/groups/no-such', { body: { name: 'x' } })).status).toBe(404);
    expect((await call('GET', `/groups/${slug}`, { token: outsider })).status).toBe(404);
  });

  it('accepts one device or several, each once', async () => {
    const { slug } = (await create({ name: 'Joined' })).body;
    const one = await call('POST', `/groups/${slug}/join`, { body: { device_id: lamps[0] } });
    expect([one.status, one.body]).toEqual([200, { status: 'joined', slug, device_ids: [lamps[0]] }]);
    const more = await call('POST', `/groups/${slug}/join`, {
      body: { device_ids: [lamps[0], lamps[1]?.toUpperCase()] },
    });
    expect(more.body.device_ids).toEqual([lamps[0], lamps[1]]);
  });

  it('is read again by live streams after a change, and not after a request that changed nothing', async () => {
    let changes = 0;
    const unsubscribe = service.services.invalidations.subscribe(({ about }) => {
      if (about === 'groups') changes += 1;
    });
    const changesOf = async (...requested: Parameters<typeof call>): Promise<[number, number]> => {
      const before = changes;
      const { status } = await call(...requested);
      return [status, changes - before];
    };
    const [status, created] = await changesOf('POST', '/groups', { body: { name: 'Watched', device_ids: [lamps[0]] } });
    expect([status, created]).toEqual([201, 1]);
    const join = (device?: string) => ['POST', '/groups/watched/join', { body: { device_id: device } }] as const;
    expect(await changesOf(...join(lamps[0]))).toEqual([200, 0]);
    expect(await changesOf(...join(lamps[1]))).toEqual([200, 1]);
    expect(await changesOf('DELETE', `/groups/watched/devices/${lamps[2]}`)).toEqual([404, 0]);
    expect(await changesOf('DELETE', `/groups/watched/devices/${lamps[1]}`)).toEqual([204, 1]);
    expect(await changesOf('DELETE', '/groups/watched')).toEqual([204, 1]);
    expect(await changesOf('DELETE', '/groups/watched')).toEqual([404, 0]);
    unsubscribe();
  });

  it('keeps every device under concurrent additions', async () => {
    const { slug } = (await create({ name: 'Rush' })).body;
    await Promise.all(lamps.map((device_id) => call('POST', `/groups/${slug}/join`, { body: { device_id } })));
    expect((await members(slug)).sort()).toEqual([...lamps].sort());
  });

  it('allows removing a device, and can be deleted', async () => {
    const { slug } = (await create({ name: 'Left', device_ids: lamps })).body;
    expect((await call('DELETE', `/groups/${slug}/devices/${lamps[0]}`)).status).toBe(204);
    expect((await call('DELETE', `/groups/${slug}/devices/${lamps[0]}`)).status).toBe(404);
    expect(await members(slug)).toEqual(lamps.slice(1));
    expect((await call('DELETE', `/groups/${slug}`)).status).toBe(204);
    expect((await call('DELETE', `/groups/${slug}`)).status).toBe(404);
    expect(await members(slug)).toBeUndefined();
  });

  it.each([
    ['both device_id and device_ids', () => ({ device_id: lamps[0], device_ids: [lamps[0]] }), 400],
    ['neither', () => ({}), 400],
    ['no devices', () => ({ device_ids: [] }), 400],
    ['a device that is a number', () => ({ device_id: 7 }), 400],
    ['501 devices', () => ({ device_ids: Array.from({ length: 501 }, () => lamps[0]) }), 400],
    ['a missing device', () => ({ device_id: '0190a000-0000-7000-8000-000000000000' }), 404],
    ['a missing one among good ones', () => ({ device_ids: [lamps[0], 'nonsense'] }), 404],
  ])('does not accept %s', async (_, body, status) => {
    const { slug } = (await create({ name: 'Strict' })).body;
    expect((await call('POST', `/groups/${slug}/join`, { body: body() })).status).toBe(status);
    expect(await members(slug)).toEqual([]);
  });

  it.each(['nowhere', 'UPPER', '%00', '..', 'a%20b', '-', '__proto__'])('%s is invalid', async (slug) => {
    const path = `/v1/groups/${slug}/join`.replace('/../', '/%2e%2e%2f/');
    const { status, body } = await service.call('POST', path, { token, body: { device_id: lamps[0] } });
    expect([status, body.detail]).toEqual([404, 'Group not found.']);
  });
});

it('groups and devices of another tenant are not found', async () => {
  const { slug } = (await create({ name: 'Private', device_ids: lamps })).body;
  const theirs = (method: string, path: string, body?: object) =>
    service.call(method, `/v1${path}`, { token: outsider, body });
  expect((await theirs('GET', '/groups')).body.groups).toEqual([]);
  expect((await theirs('POST', `/groups/${slug}/join`, { device_id: lamps[0] })).status).toBe(404);
  expect((await theirs('DELETE', `/groups/${slug}`)).status).toBe(404);
  expect((await theirs('DELETE', `/groups/${slug}/devices/${lamps[0]}`)).status).toBe(404);
  expect((await theirs('POST', '/groups', { name: 'Mine', device_ids: lamps })).status).toBe(404);
  expect(await members(slug)).toEqual(lamps);
});

it('a user adds and lists, an admin creates and deletes, a viewer may do neither', async () => {
  const { slug } = (await create({ name: 'Roles' })).body;
  const [viewer, user] = [await service.member(tenantId, 'viewer'), await service.member(tenantId, 'user')];
  const join = (token: string) => call('POST', `/groups/${slug}/join`, { token, body: { device_id: lamps[0] } });
  expect((await join(viewer)).body.code).toBe('FORBIDDEN_ROLE');
  expect((await call('GET', '/groups', { token: viewer })).body.code).toBe('FORBIDDEN_ROLE');
  expect((await join(user)).status).toBe(200);
  expect((await call('GET', '/groups', { token: user })).status).toBe(200);
  expect((await call('POST', '/groups', { token: user, body: { name: 'x' } })).body.code).toBe('FORBIDDEN_ROLE');
  expect((await call('DELETE', `/groups/${slug}`, { token: user })).body.code).toBe('FORBIDDEN_ROLE');
});

it('the list has pages', async () => {
  const { token } = await service.owner('Pages');
  for (const name of ['a', 'b', 'c']) {
    service.clock.advance(1);
    await service.call('POST', '/v1/groups', { token, body: { name } });
  }
  const first = await service.call('GET', '/v1/groups?limit=2', { token });
  const second = await service.call('GET', `/v1/groups?limit=2&cursor=${first.body.next_cursor}`, { token });
  const names = [...first.body.groups, ...second.body.groups].map(({ name }) => name);
  expect([names, second.body.next_cursor]).toEqual([['c', 'b', 'a'], null]);
});
