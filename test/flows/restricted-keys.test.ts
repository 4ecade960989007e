import { describe, expect, it } from 'vitest';
import { eventually } from '../support/clock.ts';
import { register } from '../support/device.ts';
import {
  all,
  at,
  clientOf,
  graphql,
  home,
  id,
  idsIn,
  livingLights,
  type Name,
  owner,
  room,
  withRestrictedHome,
} from '../support/restricted-home.ts';
import type { ApiClient } from '../support/service.ts';

/*
 * A restricted key reaches the devices and actions that it was made for, on every wire, and nothing else.
 */

withRestrictedHome();

describe('making a restricted key', () => {
  it.each<[string, object | string]>([
    ['no member', {}],
    ['an empty list', { rooms: [] }],
    ['an unknown member', { planets: ['earth'] }],
    ['an unknown category', { categories: ['spaceship'] }],
    ['an id that is not a UUID', { rooms: ['living room'] }],
    ['a text', 'the living room'],
  ])('refuses %s', async (_, restrict_to) => {
    const { status, body } = await owner.post('/v1/auth/api-keys', { name: 'k', scopes: ['all'], restrict_to });
    expect([status, body.code]).toEqual([400, 'VALIDATION_FAILED']);
  });

  it('refuses places and devices that the tenant does not have', async () => {
    const other = await at.owner();
    const foreign = await register(other);
    for (const restrict_to of [
      { homes: [other.homeId] },
      { rooms: [other.homeId] },
      { groups: ['no-such-group'] },
      { devices: [id.lamp, foreign.device_id] },
    ]) {
      const { status, body } = await owner.post('/v1/auth/api-keys', { name: 'k', scopes: ['all'], restrict_to });
      expect([status, body.code]).toEqual([404, 'NOT_FOUND']);
    }
  });

  it('shows the restriction in the list and to the key, and rotation keeps it', async () => {
    const restrict_to = { ...livingLights(), actions: ['turn_on'] };
    const made = await owner.post('/v1/auth/api-keys', { name: 'k', scopes: ['all'], restrict_to });
    const { prefix, key } = made.body;
    const shown = async (of: string) =>
      (await owner.get('/v1/auth/api-keys')).body.keys.find((one: { prefix: string }) => one.prefix === of).restrict_to;
    expect(await shown(prefix)).toEqual(restrict_to);
    expect((await at.api(key).get('/v1/auth/me')).body.restrict_to).toEqual(restrict_to);
    expect((await owner.get('/v1/auth/me')).body).not.toHaveProperty('restrict_to');
    const rotated = await owner.post('/v1/auth/api-keys/rotate', { prefix });
    expect(await shown(rotated.body.prefix)).toEqual(restrict_to);
    expect((await at.api(rotated.body.key).get('/v1/devices')).body.count).toBe(1);
  });

  it('works in GraphQL too', async () => {
    const query = `mutation { createApiKey(input: {name: "g", scopes: ["all"],
      restrictTo: {rooms: ["${room.living}"], categories: [LIGHT]}}) { ... on CreateApiKeyResult { key } } }`;
    const made = await graphql(owner.token, query);
    const { data, errors } = made.body;
    expect(errors).toBeUndefined();
    const { body } = await at.api(data.createApiKey.key).get('/v1/devices');
    expect(idsIn(body.devices)).toEqual(all('lamp'));
  });
});

describe('over REST', () => {
  it('lists, counts and pages have only devices within reach', async () => {
    const caller = await clientOf({ homes: [home.lake] });
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const path: string = `/v1/devices?limit=1${cursor === null ? '' : `&cursor=${cursor}`}`;
      const { body } = await caller.get(path);
      expect([body.count, body.devices.length]).toEqual([4, 1]);
      seen.push(body.devices[0].id);
      cursor = body.next_cursor;
    } while (cursor !== null);
    expect(seen.sort()).toEqual(all('lamp', 'dimmer', 'lock', 'porch'));
  });

  it('tags are counted, and found and commanded by, on devices that the key reaches', async () => {
    const tag = (name: Name, ...tags: string[]) => owner.patch(`/v1/devices/${id[name]}`, { tags });
    await Promise.all([tag('lamp', 'shown', 'all'), tag('lock', 'hidden', 'all'), tag('attic', 'all')]);
    const caller = await clientOf(livingLights());
    const [one, { body: counted }] = [{ devices: 1 }, await caller.get('/v1/tags')];
    expect(counted).toEqual({
      tags: [
        { tag: 'all', ...one },
        { tag: 'shown', ...one },
      ],
      count: 2,
      next_cursor: null,
    });
    expect(idsIn((await caller.get('/v1/devices?tag=all')).body.devices)).toEqual(all('lamp'));
    expect((await caller.get('/v1/devices?tag=hidden')).body.devices).toEqual([]);
    const { body } = await caller.post('/v1/devices/command', { tags: ['all'], action: 'turn_on' });
    expect(body.results.map(({ device_id }: { device_id: string }) => device_id)).toEqual([id.lamp]);
    await Promise.all([tag('lamp'), tag('lock'), tag('attic')]);
    expect((await owner.get('/v1/tags')).body.tags).toEqual([]);
  });

  it('homes, rooms and groups are seen as far as the key reaches', async () => {
    const caller = await clientOf(livingLights());
    expect(idsIn((await caller.get('/v1/homes')).body.homes)).toEqual([home.lake]);
    expect((await caller.get(`/v1/homes/${home.city}/rooms`)).status).toBe(404);
    expect(idsIn((await caller.get(`/v1/homes/${home.lake}/rooms`)).body.rooms)).toEqual([room.living]);
    expect((await caller.get('/v1/groups')).body.groups).toEqual([]);
    const whole = await clientOf({ homes: [home.lake] });
    expect((await whole.get(`/v1/homes/${home.lake}/rooms`)).body.rooms).toHaveLength(2);
    const group = (await (await clientOf({ groups: ['evening'], categories: ['light'] })).get('/v1/groups')).body
      .groups;
    expect(group.map(({ device_ids }: { device_ids: string[] }) => device_ids)).toEqual([[id.porch]]);
  });

  it('a device that moves out of the room, or leaves the group, is out of reach at once', async () => {
    const caller = await clientOf({ rooms: [room.living] });
    expect((await caller.get(`/v1/devices/${id.lamp}`)).status).toBe(200);
    await owner.patch(`/v1/devices/${id.lamp}`, { room_id: room.hall });
    expect((await caller.get(`/v1/devices/${id.lamp}`)).status).toBe(404);
    await owner.patch(`/v1/devices/${id.lamp}`, { room_id: room.living });
    expect((await caller.get(`/v1/devices/${id.lamp}`)).status).toBe(200);
    const ofGroup = await clientOf({ groups: ['evening'] });
    await owner.post('/v1/groups/evening/join', { device_id: id.attic });
    expect((await ofGroup.get(`/v1/devices/${id.attic}`)).status).toBe(200);
    await owner.delete(`/v1/groups/evening/devices/${id.attic}`);
    expect((await ofGroup.get(`/v1/devices/${id.attic}`)).status).toBe(404);
  });

  it('commands reach permitted devices with permitted actions alone, one by one, by lists, rooms, groups and intents', async () => {
    const caller = await clientOf({ ...livingLights(), actions: ['turn_on'] });
    const command = (name: Name, action: string) => caller.post(`/v1/device/${id[name]}/command`, { action });
    expect((await command('lamp', 'turn_on')).status).toBe(202);
    const refused = await command('lamp', 'turn_off');
    expect([refused.status, refused.body.code]).toEqual([403, 'KEY_RESTRICTED']);
    for (const name of ['dimmer', 'lock', 'shed'] as const) expect((await command(name, 'turn_on')).status).toBe(404);
    const several = await caller.post('/v1/devices/command', { device_ids: Object.values(id), action: 'turn_on' });
    const dispatched = (body: { results: { success: boolean; device_id: string }[] }) =>
      body.results.filter(({ success }) => success).map(({ device_id }) => device_id);
    expect(dispatched(several.body)).toEqual([id.lamp]);
    const inRoom = await caller.post(`/v1/rooms/${room.living}/command`, { action: 'turn_on' });
    expect(inRoom.body.results).toHaveLength(1);
    expect((await caller.post(`/v1/rooms/${room.hall}/command`, { action: 'turn_on' })).status).toBe(404);
    expect((await caller.post('/v1/groups/evening/command', { action: 'turn_on' })).status).toBe(404);
    const intent = (type: string, payload: object) => caller.post('/v1/intent', { type, payload });
    const byRoom = await intent('room.control', { room_id: room.living, action: 'turn_on' });
    expect(byRoom.body.results.map(({ device_id }: { device_id: string }) => device_id)).toEqual([id.lamp]);
    expect((await intent('device.control', { device_id: id.lock, action: 'turn_on' })).status).toBe(404);
    const turnOff = await intent('device.control', { device_id: id.lamp, action: 'turn_off' });
    expect(turnOff.body.code).toBe('KEY_RESTRICTED');
    const plan = { steps: [{ id: 'a', device_id: id.lamp, action: 'turn_on' }] };
    expect((await intent('plan.execute', { plan })).body.code).toBe('KEY_RESTRICTED');
    expect((await intent('goal', { text: 'light' })).body.code).toBe('KEY_RESTRICTED');
  });

  it('confirmations, commands and their history follow the device and the action', async () => {
    const locks = await clientOf({ devices: [id.lock] });
    const lights = await clientOf(livingLights());
    const onlyLocking = await clientOf({ devices: [id.lock], actions: ['lock'] });
    const waiting = await owner.post(`/v1/device/${id.lock}/command`, { action: 'unlock' });
    expect(waiting.status).toBe(409);
    const { command_id, dry_run_token } = waiting.body;
    const inbox = async (caller: ApiClient) =>
      (await caller.get('/v1/confirmations')).body.confirmations.map((one: { command_id: string }) => one.command_id);
    expect([await inbox(locks), await inbox(lights)]).toEqual([[command_id], []]);
    expect((await lights.get(`/v1/commands/${command_id}`)).status).toBe(404);
    expect((await lights.get(`/v1/device/${id.lock}/commands`)).status).toBe(404);
    expect((await lights.get(`/v1/devices/${id.lock}/timeline`)).status).toBe(404);
    expect((await lights.post(`/v1/confirmations/${command_id}/approve`, {})).status).toBe(404);
    expect((await lights.post(`/v1/confirmations/${command_id}/refuse`, {})).status).toBe(404);
    expect((await lights.post(`/v1/device/${id.lock}/command/confirm`, { dry_run_token })).status).toBe(404);
    expect((await lights.post(`/v1/commands/${command_id}/cancel`, {})).status).toBe(404);
    for (const [path, body] of [
      [`/v1/confirmations/${command_id}/approve`, {}],
      [`/v1/confirmations/${command_id}/refuse`, {}],
      [`/v1/device/${id.lock}/command/confirm`, { dry_run_token }],
      [`/v1/commands/${command_id}/cancel`, {}],
    ] as const)
      expect((await onlyLocking.post(path, body)).body.code).toBe('KEY_RESTRICTED');
    expect((await locks.post(`/v1/device/${id.lock}/command/confirm`, { dry_run_token })).status).toBe(202);
  });

  it('commands of plans are not shown to be confirmed, and cannot be confirmed, refused or cancelled', async () => {
    const caller = await clientOf({ devices: [id.lock] });
    const step = { id: 'a', device_id: id.lock, action: 'unlock' };
    const made = await owner.post('/v1/plans', {
      steps: [step, { id: 'b', device_id: id.shed, action: 'lock', depends_on: ['a'] }],
    });
    expect(made.status).toBe(202);
    const planId = made.body.plan.id;
    const plan = async () => (await owner.get(`/v1/plans/${planId}`)).body.plan;
    const waiting = await eventually(async () => {
      const [first] = (await plan()).steps;
      const { confirmations } = (await owner.get('/v1/confirmations')).body;
      return confirmations.find((one: { command_id: string }) => one.command_id === first.command_id);
    });
    const before = await plan();
    const { command_id } = waiting;
    expect((await caller.get(`/v1/commands/${command_id}`)).status).toBe(200);
    expect((await caller.get('/v1/confirmations')).body.confirmations).toEqual([]);
    for (const path of [
      `/v1/confirmations/${command_id}/approve`,
      `/v1/confirmations/${command_id}/refuse`,
      `/v1/commands/${command_id}/cancel`,
    ]) {
      const { status, body } = await caller.post(path, {});
      expect([path, status, body.code]).toEqual([path, 403, 'KEY_RESTRICTED']);
    }
    expect(await plan()).toEqual(before);
    expect((await owner.post(`/v1/plans/${planId}/cancel`, {})).status).toBe(202);
  });

  it('a stored answer of another credential is not repeated to a restricted key', async () => {
    const headers = { 'idempotency-key': 'the-same-key' };
    const body = { device_ids: [id.lock, id.lamp], action: 'turn_on' };
    await owner.post('/v1/devices/command', body, headers);
    const caller = await clientOf(livingLights());
    const refused = await caller.post('/v1/devices/command', body, headers);
    expect([refused.status, refused.body.code]).toEqual([409, 'CONFLICT']);
    const own = { 'idempotency-key': 'another-key' };
    const first = await caller.post('/v1/devices/command', body, own);
    expect(first.body.results[0].code).toBe('NOT_FOUND');
    expect((await caller.post('/v1/devices/command', body, own)).body).toEqual(first.body);
  });

  it('operations that do not support restricted keys refuse them', async () => {
    const caller = await clientOf({ actions: ['turn_on'] });
    for (const [method, path] of [
      ['get', '/v1/plans'],
      ['get', '/v1/memories'],
      ['get', '/v1/audit'],
      ['get', '/v1/actors'],
      ['get', '/v1/auth/api-keys'],
      ['get', '/v1/change-requests'],
      ['get', '/v1/overview'],
      ['delete', `/v1/devices/${id.shed}`],
      ['delete', `/v1/homes/${home.city}`],
      ['delete', '/v1/groups/evening'],
    ] as const) {
      const { status, body } = await caller[method](path);
      expect([path, status, body.code]).toEqual([path, 403, 'KEY_RESTRICTED']);
    }
    const renamed = await caller.patch(`/v1/devices/${id.lamp}`, { name: 'Mine' });
    expect(renamed.body.code).toBe('KEY_RESTRICTED');
  });
});
