import { v7 } from 'uuid';
import { describe, expect, it } from 'vitest';
import type { CallOptions } from '../../../support/http-service.ts';
import { slow } from '../../../support/slow.ts';
import { mine, other, service, withTwoTenants } from '../two-tenants.ts';

withTwoTenants();

const batch = (body: object, sent?: CallOptions) => mine.call('POST', '/devices/command', body, sent);
const register = async (more = {}) => (await mine.register(more)).device_id;
const history = async (id: string) => (await mine.call('GET', `/device/${id}/commands`)).body.commands;
const anId = expect.stringMatching(/^[0-9a-f-]{36}$/);
const dispatched = (device_id: string) => ({
  device_id,
  success: true,
  command_id: anId,
  message_id: anId,
  status: 'dispatched',
});

describe('POST /devices/command', () => {
  it('returns a result for each device; failures are independent', async () => {
    const light = await register();
    const bare = await register({ device_type: 'esp32' });
    const revoked = await register();
    await mine.call('POST', `/device/${revoked}/revoke`);
    const { device_id: theirs } = await other.register();
    const missing = v7();
    const ids = [light, bare, revoked, theirs, missing, 'lamp'];
    const { status, body } = await batch({ device_ids: ids, action: 'turn_on' });
    expect(status).toBe(200);
    const rejected = { success: false, status: 'rejected', command_id: anId, error: expect.any(String) };
    const unknown = { success: false, code: 'NOT_FOUND', error: 'Device not found.' };
    expect(body).toEqual({
      results: [
        dispatched(light),
        { device_id: bare, code: 'MANIFEST_NOT_FOUND', ...rejected },
        { device_id: revoked, code: 'DEVICE_REVOKED', ...rejected },
        { device_id: theirs, ...unknown },
        { device_id: missing, ...unknown },
        { device_id: 'lamp', ...unknown },
      ],
    });
    expect(await history(bare)).toMatchObject([{ id: body.results[1].command_id, status: 'rejected' }]);
    expect((await other.call('GET', `/device/${theirs}/commands`)).body.commands).toEqual([]);
  });

  it('commands a device once if it is named twice', async () => {
    const id = await register();
    const { body } = await batch({ device_ids: [id, id.toUpperCase(), id], action: 'turn_on' });
    expect(body.results).toEqual([dispatched(id)]);
    expect(await history(id)).toHaveLength(1);
  });

  it('returns a separate token for each critical command', async () => {
    const ids = [await register({ device_type: 'lock' }), await register({ device_type: 'lock' })];
    const { body } = await batch({ device_ids: ids, action: 'unlock' });
    const tokens = body.results.map((entry: { dry_run_token: string }) => entry.dry_run_token);
    expect(new Set(tokens).size).toBe(2);
    for (const [n, entry] of body.results.entries()) {
      expect(entry).toEqual({
        device_id: ids[n],
        success: false,
        command_id: anId,
        status: 'dry_run_required',
        dry_run_token: anId,
        expires_at: new Date(service.clock.now() + 300_000).toISOString(),
        reason: "'unlock' is critical and needs confirmation.",
        preview: expect.objectContaining({ expected: { locked: false } }),
        error: entry.reason,
        code: 'DRY_RUN_REQUIRED',
      });
      const confirmed = await mine.call('POST', `/device/${ids[n]}/command/confirm`, { token: entry.dry_run_token });
      expect([confirmed.status, confirmed.body.command_id]).toEqual([202, entry.command_id]);
    }
  });

  it('accepts dry_run, ttl_s and timeout_s as for one device', async () => {
    const id = await register();
    const tried = await batch({ device_ids: [id], action: 'turn_on', dry_run: true });
    expect(tried.body.results).toEqual([
      {
        ...{ device_id: id, success: true, status: 'dry_run_required', command_id: anId, dry_run_token: anId },
        ...{ expires_at: expect.any(String), reason: 'A dry run was requested.' },
        preview: expect.objectContaining({
          current: {},
          expected: { on: true },
          changes: { on: { from: null, to: true } },
        }),
      },
    ]);
    const { body } = await batch({ device_ids: [id], action: 'turn_on', ttl_s: 7, timeout_s: 8 });
    const shown = await mine.call('GET', `/commands/${body.results[0].command_id}`);
    expect(shown.body.command).toMatchObject({ ttl_s: 7, timeout_s: 8 });
    const lock = await register({ device_type: 'lock' });
    const tooLong = await batch({ device_ids: [lock, id], action: 'reboot', ttl_s: 301 });
    expect(tooLong.body.results).toMatchObject([{ code: 'VALIDATION_FAILED' }, { code: 'VALIDATION_FAILED' }]);
  });

  it('commands at most 500 devices', async () => {
    const ids = Array.from({ length: 499 }, () => v7());
    const id = await register();
    const full = await batch({ device_ids: [...ids, id, id], action: 'turn_on' });
    expect(full.status).toBe(200);
    expect(full.body.results).toHaveLength(500);
    expect(full.body.results[499]).toEqual(dispatched(id));
    const over = await batch({ device_ids: [...ids, id, v7()], action: 'turn_on' });
    expect([over.status, over.body.code]).toEqual([400, 'VALIDATION_FAILED']);
  });

  it('commands 500 existing devices in one request', slow, async () => {
    const ids: string[] = [];
    while (ids.length < 500) ids.push(...(await Promise.all(Array.from({ length: 50 }, () => register()))));
    const { body } = await batch({ device_ids: ids, action: 'turn_on' });
    expect(body.results).toEqual(ids.map(dispatched));
    expect(new Set(body.results.map((entry: { command_id: string }) => entry.command_id)).size).toBe(500);
  });

  it.each([
    ['no devices', { device_ids: [], action: 'turn_on' }],
    ['devices that are not a list', { device_ids: 'x', action: 'turn_on' }],
    ['a device that is not a string', { device_ids: [1], action: 'turn_on' }],
    ['no action', { device_ids: ['x'] }],
    ['an unknown field', { device_ids: ['x'], action: 'turn_on', capability: 'light' }],
  ])('refuses %s', async (_, body) => {
    const answer = await batch(body);
    expect([answer.status, answer.body.code]).toEqual([400, 'VALIDATION_FAILED']);
  });

  it('requires the role user', async () => {
    const body = { device_ids: [await register()], action: 'turn_on' };
    expect((await batch(body, { token: mine.tokens.viewer })).status).toBe(403);
    expect((await batch(body, { token: mine.tokens.user })).status).toBe(200);
  });

  it('answers a repeat with the same Idempotency-Key without a second command', async () => {
    const ids = [await register(), await register({ device_type: 'lock' })];
    const sent = { headers: { 'idempotency-key': v7() } };
    const body = { device_ids: ids, action: 'reboot' };
    const first = await batch(body, sent);
    const again = await batch(body, sent);
    expect(again.body).toEqual(first.body);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    for (const id of ids) expect(await history(id)).toHaveLength(1);
  });
});

describe('POST /rooms/{roomId}/command', () => {
  const room = (id: string, body: object, sent?: CallOptions) => mine.call('POST', `/rooms/${id}/command`, body, sent);
  const idsIn = (answer: { body: { results: { device_id: string }[] } }) =>
    answer.body.results.map(({ device_id }) => device_id).sort();

  it('commands the devices of the room, or those of one category, and names the revoked ones', async () => {
    const light = await register({ room_id: mine.roomId });
    const lock = await register({ device_type: 'front-lock', room_id: mine.roomId });
    await register();
    const revoked = await register({ room_id: mine.roomId });
    await mine.call('POST', `/device/${revoked}/revoke`);
    const all = await room(mine.roomId, { action: 'turn_on' });
    expect(all.status).toBe(200);
    expect(idsIn(all)).toEqual([light, lock, revoked].sort());
    const refused = { device_id: revoked, success: false, code: 'DEVICE_REVOKED', error: 'The device is revoked.' };
    expect(all.body.results.at(-1)).toMatchObject(refused);
    const lights = await room(mine.roomId, { action: 'set_brightness', params: { level: 5 }, capability: 'light' });
    expect(lights.body.results).toEqual([dispatched(light), expect.objectContaining(refused)]);
    const critical = await room(mine.roomId, { action: 'unlock', capability: 'lock' });
    expect(critical.body.results).toMatchObject([{ device_id: lock, code: 'DRY_RUN_REQUIRED' }]);
    expect((await room(mine.roomId, { action: 'open', capability: 'valve' })).body).toEqual({ results: [] });
  });

  it('selects by the category of a tenant’s manifest', async () => {
    const id = await register({ device_type: 'esp32', room_id: mine.roomId });
    const body = { category: 'valve', capabilities: [{ action: 'drip' }] };
    await mine.call('POST', `/devices/${id}/manifest`, body);
    const answer = await room(mine.roomId, { action: 'drip', capability: 'valve' });
    expect(answer.body.results).toEqual([dispatched(id)]);
  });

  it('refuses an unknown category, a missing action, and unknown rooms', async () => {
    expect((await room(mine.roomId, { action: 'open', capability: 'boat' })).status).toBe(400);
    expect((await room(mine.roomId, { capability: 'light' })).status).toBe(400);
    for (const id of [v7(), other.roomId, 'kitchen']) {
      const answer = await room(id, { action: 'turn_on' });
      expect([answer.status, answer.body.code]).toEqual([404, 'NOT_FOUND']);
    }
    expect((await room(mine.roomId, { action: 'turn_on' }, { token: mine.tokens.viewer })).status).toBe(403);
  });
});

describe('POST /groups/{groupSlug}/command', () => {
  const group = (slug: string, body: object, sent?: CallOptions) =>
    mine.call('POST', `/groups/${slug}/command`, body, sent);

  it('commands the devices of the group, and returns a result for revoked ones', async () => {
    const [light, revoked] = [await register(), await register()];
    await mine.call('POST', '/groups', { name: 'Evening', description: '', device_ids: [light, revoked] });
    await mine.call('POST', `/device/${revoked}/revoke`);
    const { status, body } = await group('evening', { action: 'set_brightness', params: { level: 9 } });
    expect(status).toBe(200);
    expect(body.results).toHaveLength(2);
    expect(body.results).toContainEqual(dispatched(light));
    expect(body.results).toContainEqual(
      expect.objectContaining({ device_id: revoked, success: false, code: 'DEVICE_REVOKED' }),
    );
  });

  it('returns no result for a deleted device', async () => {
    const id = await register();
    await mine.call('POST', '/groups', { name: 'Gone', description: '', device_ids: [id] });
    await mine.call('POST', `/device/${id}/revoke`);
    await mine.call('DELETE', `/devices/${id}`);
    expect((await group('gone', { action: 'turn_on' })).body).toEqual({ results: [] });
  });

  it('refuses a missing action, unknown fields and unknown groups', async () => {
    await mine.call('POST', '/groups', { name: 'Empty', description: '', device_ids: [] });
    expect((await group('empty', { action: 'turn_on' })).body).toEqual({ results: [] });
    expect((await group('empty', {})).status).toBe(400);
    expect((await group('empty', { action: 'turn_on', capability: 'light' })).status).toBe(400);
    expect((await group('nowhere', { action: 'turn_on' })).status).toBe(404);
    expect((await group('empty', { action: 'turn_on' }, { token: other.tokens.owner })).status).toBe(404);
    expect((await group('empty', { action: 'turn_on' }, { token: mine.tokens.viewer })).status).toBe(403);
  });
});
