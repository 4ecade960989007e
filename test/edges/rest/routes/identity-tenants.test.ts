import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadRevocations } from '../../../../src/services/tokens.ts';
import type { HttpService } from '../../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

// The tests of the operations use a store in memory; these run on a database.

let service: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

const keyed = (key: string) => ({ headers: { 'idempotency-key': key } });
const namesOf = (list: { name?: string; home_name?: string }[]) => list.map(({ name, home_name }) => name ?? home_name);

describe('tenants', () => {
  it('with the same name have different slugs, also when created concurrently', async () => {
    const tokens = await Promise.all([1, 2, 3].map((n) => service.token(`same-${n}`)));
    const made = await Promise.all(
      tokens.map((token) => service.call('POST', '/v1/tenant/register', { token, body: { tenant_name: 'Same' } })),
    );
    expect(made.map(({ status }) => status)).toEqual([201, 201, 201]);
    const answers = await Promise.all(tokens.map((token) => service.call('GET', '/v1/auth/me', { token })));
    const slugs = answers.map(({ body }) => body.user.tenant_slug).sort();
    expect(slugs).toEqual(['same', 'same-2', 'same-3']);
  });

  it('are registered once by one user, and again only as a replay', async () => {
    const token = await service.token('once');
    const register = (key?: string) =>
      service.call('POST', '/v1/tenant/register', {
        token,
        body: { tenant_name: 'Once' },
        ...(key !== undefined && keyed(key)),
      });
    const answers = await Promise.all([register('k'), register(), register()]);
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    const newUser = await service.token('twice');
    const again = () =>
      service.call('POST', '/v1/tenant/register', { token: newUser, body: { tenant_name: 'Twice' }, ...keyed('k') });
    const first = await again();
    const second = await again();
    expect([second.status, second.headers.get('idempotent-replayed'), second.body]).toEqual([201, 'true', first.body]);
  });
});

describe('homes and rooms', () => {
  it('are listed newest first, in pages that insertions do not shift', async () => {
    const homeId = (await mine.call('POST', '/homes', { home_name: 'Paged' })).body.id;
    const add = (n: number) => mine.call('POST', `/homes/${homeId}/rooms`, { name: `r${n}` });
    for (let n = 0; n < 5; n++) await add(n);
    const seen: (string | undefined)[] = [];
    let cursor = '';
    do {
      const { body } = await mine.call('GET', `/homes/${homeId}/rooms?limit=2${cursor && `&cursor=${cursor}`}`);
      seen.push(...namesOf(body.rooms));
      cursor = body.next_cursor ?? '';
      await add(100);
    } while (cursor !== '');
    expect(seen).toEqual(['r4', 'r3', 'r2', 'r1', 'r0']);
  });

  it('release their devices when they are deleted', async () => {
    const homeId = (await mine.call('POST', '/homes', { home_name: 'Going' })).body.id;
    const roomId = (await mine.call('POST', `/homes/${homeId}/rooms`, { name: 'Going' })).body.id;
    const { device_id } = await mine.register({ home_id: homeId, room_id: roomId });
    expect((await mine.call('DELETE', `/homes/${homeId}/rooms/${roomId}`)).status).toBe(204);
    expect((await mine.call('GET', `/devices/${device_id}`)).body.device).toMatchObject({
      home_id: homeId,
      room_id: null,
    });
    expect((await mine.call('DELETE', `/homes/${homeId}`)).body.code).toBe('CONFLICT');
    await mine.call('POST', `/device/${device_id}/revoke`);
    expect((await mine.call('DELETE', `/homes/${homeId}`)).status).toBe(204);
    expect((await mine.call('GET', `/devices/${device_id}`)).body.device.home_id).toBeNull();
    expect(namesOf((await mine.call('GET', '/homes?limit=200')).body.homes)).not.toContain('Going');
  });

  it('never lose a device that is placed while a home is deleted', async () => {
    for (let n = 0; n < 5; n++) {
      const homeId = (await mine.call('POST', '/homes', { home_name: `Race ${n}` })).body.id;
      const [registered, deleted] = await Promise.all([
        mine.call('POST', '/device/register', { device_type: 'smart_light', home_id: homeId }),
        mine.call('DELETE', `/homes/${homeId}`),
      ]);
      const outcome = `${registered.status} ${deleted.status}`;
      expect(['201 409', '404 204']).toContain(outcome);
    }
  });
});

describe('groups', () => {
  it('are created, joined, left, listed and deleted', async () => {
    const lamps = [await mine.register(), await mine.register()].map(({ device_id }) => device_id);
    const create = () => mine.call('POST', '/groups', { name: 'Évening', device_ids: [lamps[0]] });
    expect([(await create()).body.slug, (await create()).body.slug]).toEqual(['evening', 'evening-2']);
    const joined = await mine.call('POST', '/groups/evening/join', { device_ids: lamps });
    expect(joined.body.device_ids.sort()).toEqual([...lamps].sort());
    expect((await mine.call('DELETE', `/groups/evening/devices/${lamps[0]}`)).status).toBe(204);
    expect((await mine.call('DELETE', `/groups/evening/devices/${lamps[0]}`)).status).toBe(404);
    const { body } = await mine.call('GET', '/groups?limit=1');
    expect(namesOf(body.groups)).toHaveLength(1);
    const rest = await mine.call('GET', `/groups?cursor=${body.next_cursor}`);
    const all = [...body.groups, ...rest.body.groups].map(({ slug, device_ids }) => [slug, device_ids]);
    expect(all).toEqual([
      ['evening-2', [lamps[0]]],
      ['evening', [lamps[1]]],
    ]);
    for (const slug of ['evening', 'evening-2'])
      expect((await mine.call('DELETE', `/groups/${slug}`)).status).toBe(204);
    expect((await mine.call('GET', '/groups')).body.groups).toEqual([]);
  });
});

describe('idempotency', () => {
  it.each([
    ['a home', '/homes', { home_name: 'Keyed' }],
    ['a group', '/groups', { name: 'Keyed' }],
  ])('%s is created once, with its response in the same commit', async (_, path, body) => {
    const first = await mine.call('POST', path, body, keyed('one'));
    const again = await mine.call('POST', path, body, keyed('one'));
    expect([again.status, again.headers.get('idempotent-replayed'), again.body]).toEqual([201, 'true', first.body]);
    const other = await mine.call('POST', path, { ...body, [Object.keys(body)[0] as string]: 'Other' }, keyed('one'));
    expect(other.status).toBe(422);
  });

  it('concurrent requests create one record', async () => {
    await Promise.all(
      Array.from({ length: 10 }, () => mine.call('POST', '/homes', { home_name: 'Rush' }, keyed('rush'))),
    );
    const { body } = await mine.call('GET', '/homes?limit=200');
    expect(namesOf(body.homes).filter((name) => name === 'Rush')).toHaveLength(1);
  });

  it('bodies and keys that contain SQL are treated as text', async () => {
    const name = `'); drop table homes; --`;
    const { status } = await mine.call('POST', '/homes', { home_name: name }, keyed(`';--`));
    expect(status).toBe(201);
    expect(namesOf((await mine.call('GET', '/homes?limit=1')).body.homes)).toEqual([name]);
  });
});

it('a logged-out token stays revoked after a restart', async () => {
  const token = await service.token('leaver');
  await service.call('POST', '/v1/auth/logout', { token });
  expect((await service.call('GET', '/v1/auth/me', { token })).status).toBe(401);
  const jti = JSON.parse(Buffer.from(token.split('.')[1] as string, 'base64url').toString()).jti;
  expect((await loadRevocations(service.store.identity, service.clock)).has(jti)).toBe(true);
});
