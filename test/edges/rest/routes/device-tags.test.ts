import { describe, expect, it, vi } from 'vitest';
import { mine, other, service, withTwoTenants } from '../two-tenants.ts';

withTwoTenants();

const register = async (tags?: string[], more = {}) =>
  (await mine.register({ ...(tags !== undefined && { tags }), ...more })).device_id;
const patch = (id: string, body: object) => mine.call('PATCH', `/devices/${id}`, body);
const tagsOf = async (id: string) => (await mine.call('GET', `/devices/${id}`)).body.device.tags;
const listed = async (query: string): Promise<string[]> => {
  const { status, body } = await mine.call('GET', `/devices?${query}`);
  expect([query, status]).toEqual([query, 200]);
  return body.devices.map(({ id }: { id: string }) => id);
};
const many = (count: number) => Array.from({ length: count }, (_, n) => `t${n}`);

describe('tags of a device', () => {
  it('are given at registration and shown in the record and in the list', async () => {
    const id = await register(['outdoor', 'floor:2', 'outdoor']);
    expect(await tagsOf(id)).toEqual(['floor:2', 'outdoor']);
    expect((await mine.call('GET', '/devices')).body.devices).toMatchObject([{ id, tags: ['floor:2', 'outdoor'] }]);
  });

  it('are added, removed and replaced by a patch, which answers with all of them', async () => {
    const id = await register(['a']);
    const { status, body } = await patch(id, { add_tags: ['c', 'b'], remove_tags: ['a', 'x'] });
    expect([status, body.device.tags]).toEqual([200, ['b', 'c']]);
    expect((await patch(id, { add_tags: ['b'] })).body.device.tags).toEqual(['b', 'c']);
    expect((await patch(id, { tags: ['z'], name: 'Lamp' })).body.device).toMatchObject({ tags: ['z'], name: 'Lamp' });
    expect((await patch(id, { name: 'Lamp 2' })).body.device.tags).toEqual(['z']);
    expect((await patch(id, { tags: [] })).body.device.tags).toEqual([]);
  });

  it('are not lost by concurrent changes', async () => {
    const id = await register(['first']);
    const answers = await Promise.all(many(12).map((tag) => patch(id, { add_tags: [tag] })));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(await tagsOf(id)).toEqual(['first', ...many(12)].sort());
  });

  it('are at most 16', async () => {
    const id = await register(many(16));
    const { status, body } = await patch(id, { add_tags: ['more'], name: 'Lamp' });
    expect([status, body.code, body.detail]).toEqual([
      ...[400, 'VALIDATION_FAILED', 'The device would have 17 tags; it can have 16.'],
    ]);
    expect((await mine.call('GET', `/devices/${id}`)).body.device).toMatchObject({ name: null, tags: many(16).sort() });
    expect((await patch(id, { tags: many(17) })).status).toBe(400);
    expect(
      (await mine.call('POST', '/device/register', { home_id: mine.homeId, device_type: 'x', tags: many(17) })).status,
    ).toBe(400);
  });

  it.each([
    [{ tags: ['Outdoor'] }, 'tags.0'],
    [{ add_tags: ['two words'] }, 'add_tags.0'],
    [{ remove_tags: 'a' }, 'remove_tags'],
    [{ tags: ['a'], add_tags: ['b'] }, 'tags'],
  ])('are refused as %j', async (body, path) => {
    const answer = await patch(await register(), body);
    expect([answer.status, answer.body.code]).toEqual([400, 'VALIDATION_FAILED']);
    expect(answer.body.errors).toMatchObject([{ path }]);
  });

  it('are changed by admins only, and in the own tenant only', async () => {
    const id = await register(['a']);
    expect((await mine.call('PATCH', `/devices/${id}`, { add_tags: ['b'] }, { token: mine.tokens.user })).status).toBe(
      403,
    );
    expect((await other.call('PATCH', `/devices/${id}`, { add_tags: ['b'] })).status).toBe(404);
    expect(await tagsOf(id)).toEqual(['a']);
  });

  it('are in the audit log and the journal with each change', async () => {
    const id = await register(['a']);
    await patch(id, { add_tags: ['b'] });
    const { body } = await mine.call('GET', `/audit?subject=device:${id}`);
    expect(body.entries.map(({ action }: { action: string }) => action)).toEqual(['patchDevice', 'registerDevice']);
    const journal = await mine.call('GET', `/actors/device/${id}/journal`);
    expect(journal.body.entries.map(({ data }: { data: { tags: string[] } }) => data.tags)).toEqual([
      ['a', 'b'],
      ['a'],
    ]);
  });
});

describe('GET /devices', () => {
  it('filters by all of the tags, together with other filters, in pages', async () => {
    const [a, ab, b] = [await register(['a']), await register(['a', 'b']), await register(['b'], { name: 'Porch' })];
    expect(await listed('tag=a')).toEqual([ab, a]);
    expect(await listed('tag=a&tag=b')).toEqual([ab]);
    expect(await listed('tag=b&tag=a&tag=b')).toEqual([ab]);
    expect(await listed('tag=b&q=porch')).toEqual([b]);
    expect(await listed('tag=c')).toEqual([]);
    expect(await listed(`tag=a&home_id=${mine.homeId}`)).toEqual([ab, a]);
    expect((await other.call('GET', '/devices?tag=a')).body.devices).toEqual([]);
    const first = (await mine.call('GET', '/devices?tag=a&limit=1')).body;
    expect(first).toMatchObject({ devices: [{ id: ab }], count: 3 });
    expect(await listed(`tag=a&limit=1&cursor=${first.next_cursor}`)).toEqual([a]);
    expect((await mine.call('GET', `/devices?tag=b&limit=1&cursor=${first.next_cursor}`)).status).toBe(400);
  });

  it('finds a text in names, types, tags and at the start of ids', async () => {
    const lamp = await register(['floor:2'], { name: 'Desk lamp' });
    const lock = await register(['outdoor'], { device_type: 'smart_lock' });
    expect(await listed('q=DESK')).toEqual([lamp]);
    expect(await listed('q=smart_lo')).toEqual([lock]);
    expect(await listed('q=outdoor')).toEqual([lock]);
    expect(await listed('q=floor%3A')).toEqual([lamp]);
    expect(await listed(`q=${lock.slice(0, 30)}`)).toContain(lock);
    expect(await listed('q=smart')).toEqual([lock, lamp]);
    expect(await listed('q=%25')).toEqual([]);
  });

  it.each([
    'tag=A',
    'tag=',
    'tag',
    `tag=${many(17).join('&tag=')}`,
    'q=',
    'q=%20',
    'q=a&q=b',
    'online=true&online=true',
  ])('refuses %s', async (query) => {
    const { status, body } = await mine.call('GET', `/devices?${query}`);
    expect([status, body.code]).toEqual([400, 'VALIDATION_FAILED']);
  });
});

describe('GET /tags', () => {
  it('counts the devices of each tag, including revoked ones and without deleted ones', async () => {
    const gone = await register(['b', 'gone']);
    const revoked = await register(['a', 'b']);
    await register(['b']);
    await mine.call('POST', `/device/${revoked}/revoke`);
    await mine.call('POST', `/device/${gone}/revoke`);
    expect((await mine.call('DELETE', `/devices/${gone}`)).status).toBe(204);
    const all = [
      { tag: 'a', devices: 1 },
      { tag: 'b', devices: 2 },
    ];
    expect((await mine.call('GET', '/tags')).body).toEqual({ tags: all, count: 2, next_cursor: null });
    const first = (await mine.call('GET', '/tags?limit=1')).body;
    expect(first).toMatchObject({ tags: [all[0]], count: null });
    const { body } = await mine.call('GET', `/tags?limit=1&cursor=${first.next_cursor}`);
    expect(body).toEqual({ tags: [all[1]], count: null, next_cursor: null });
    expect((await other.call('GET', '/tags')).body.tags).toEqual([]);
  });
});

describe('POST /devices/command with tags', () => {
  const batch = (body: object, sent = {}) => mine.call('POST', '/devices/command', body, sent);

  it('commands each device that has all of them and is not revoked', async () => {
    const both = await register(['a', 'b']);
    const bare = await register(['a', 'b'], { device_type: 'thing' });
    const gone = await register(['a', 'b']);
    await register(['a']);
    await mine.call('POST', `/device/${gone}/revoke`);
    const { status, body } = await batch({ tags: ['b', 'a'], action: 'turn_on' });
    expect(status).toBe(200);
    expect(body.results).toMatchObject([
      { device_id: bare, success: false, code: 'MANIFEST_NOT_FOUND' },
      { device_id: both, success: true, status: 'dispatched' },
    ]);
    expect((await batch({ tags: ['none'], action: 'turn_on' })).body).toEqual({ results: [] });
  });

  it('answers a repeat with the same devices, also if another one has got the tag since', async () => {
    const id = await register(['a']);
    const headers = { 'idempotency-key': 'tagged' };
    const first = await batch({ tags: ['a'], action: 'turn_on' }, { headers });
    await register(['a']);
    expect((await batch({ tags: ['a'], action: 'turn_on' }, { headers })).body).toEqual(first.body);
    expect(first.body.results).toMatchObject([{ device_id: id, success: true }]);
  });

  it('refuses tags together with ids, neither of them, and more than 500 devices', async () => {
    const id = await register(['a']);
    for (const body of [{ device_ids: [id], tags: ['a'] }, {}, { tags: [] }]) {
      expect((await batch({ ...body, action: 'turn_on' })).body).toMatchObject({ code: 'VALIDATION_FAILED' });
    }
    const { devices } = service.services.store;
    const page = await devices.list(mine.tenantId, { tags: ['a'] }, 1);
    vi.spyOn(devices, 'list').mockImplementation(async (_tenant, _filter, limit) => ({
      ...page,
      items: Array.from({ length: limit }, () => page.items[0]) as typeof page.items,
    }));
    const { status, body } = await batch({ tags: ['a'], action: 'turn_on' });
    expect([status, body.detail]).toEqual([400, 'The tags have more than 500 devices, the maximum of one request.']);
  });
});
