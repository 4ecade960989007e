import { v7 } from 'uuid';
import { describe, expect, it } from 'vitest';
import { mine, other, service } from '../two-tenants.ts';
import {
  cancel,
  command,
  contextOf,
  dryRun,
  register,
  show,
  UUID,
  withCommandService,
  written,
} from './command-requests.ts';

withCommandService();

describe('POST /device/{deviceId}/command', () => {
  it('dispatches a normal action with 202', async () => {
    const id = await register();
    const { status, body } = await command(id, { action: 'set_brightness', params: { level: 40 } });
    expect(status).toBe(202);
    expect(body).toEqual({
      success: true,
      command_id: expect.stringMatching(UUID),
      message_id: expect.stringMatching(UUID),
    });
    expect(await show(body.command_id)).toMatchObject({ status: 'dispatched', ttl_s: 60, timeout_s: 30 });
    expect(written).toEqual([]);
  });

  it('writes it at once to a connected device, and later to one that connects', async () => {
    const id = await register();
    const early = (await command(id, { action: 'turn_on' })).body.command_id;
    await mine.connect(id);
    expect(written).toEqual([early]);
    const late = (await command(id, { action: 'turn_off' })).body.command_id;
    expect(written).toEqual([early, late]);
    mine.disconnect(id);
  });

  it('keeps the message_id and the request id of its request', async () => {
    const id = await register();
    const requestId = v7();
    const { body } = await command(id, { action: 'turn_on' }, { headers: { 'x-request-id': requestId } });
    expect(await contextOf(body.command_id)).toMatchObject({
      fixed: { messageId: body.message_id, origin: { requestId } },
    });
  });

  it('accepts ttl_s and timeout_s within their bounds', async () => {
    const id = await register();
    const { body } = await command(id, { action: 'turn_on', ttl_s: 86_400, timeout_s: 3_600 });
    expect(await show(body.command_id)).toMatchObject({ ttl_s: 86_400, timeout_s: 3_600 });
    for (const more of [{ ttl_s: 0 }, { ttl_s: 86_401 }, { ttl_s: 1.5 }, { timeout_s: 0 }, { timeout_s: 3_601 }]) {
      const answer = await command(id, { action: 'turn_on', ...more });
      expect([answer.status, answer.body.code]).toEqual([400, 'VALIDATION_FAILED']);
    }
    const lock = await register('lock');
    const longest = await command(lock, { action: 'unlock', ttl_s: 300 });
    expect(longest.status).toBe(409);
    const tooLong = await command(lock, { action: 'unlock', ttl_s: 301 });
    expect([tooLong.status, tooLong.body.code]).toEqual([400, 'VALIDATION_FAILED']);
    expect(tooLong.body.errors).toEqual([{ path: 'ttl_s', message: 'must be 1 to 300' }]);
  });

  it.each([
    ['an action it does not offer', { action: 'open_valve' }, 403, 'ACTION_NOT_IN_MANIFEST'],
    ['an unknown action', { action: '__proto__' }, 403, 'ACTION_NOT_IN_MANIFEST'],
    ['an action of the protocol', { action: 'rotate_key' }, 403, 'RESTRICTED_ACTION'],
    ['params out of range', { action: 'set_brightness', params: { level: 101 } }, 400, 'PARAMS_INVALID'],
    ['missing params', { action: 'set_brightness' }, 400, 'PARAMS_INVALID'],
    ['unknown params', { action: 'turn_on', params: { now: true } }, 400, 'PARAMS_INVALID'],
    [
      'firmware that is not released',
      { action: 'update_firmware', params: { firmware_id: v7() } },
      400,
      'PARAMS_INVALID',
    ],
    [
      'a dry run of bad params',
      { action: 'set_brightness', params: { level: -1 }, dry_run: true },
      400,
      'PARAMS_INVALID',
    ],
  ])('refuses %s, and stores that in the history', async (_, body, status, code) => {
    const id = await register();
    const answer = await command(id, body);
    expect([answer.status, answer.body.code]).toEqual([status, code]);
    expect(answer.headers.get('content-type')).toContain('application/problem+json');
    if (code === 'PARAMS_INVALID') expect(answer.body.errors.length).toBeGreaterThan(0);
    const { commands } = (await mine.call('GET', `/device/${id}/commands`)).body;
    expect(commands).toMatchObject([{ action: body.action, status: 'rejected' }]);
    expect(await show(commands[0].id)).toMatchObject({ refusal: { code, detail: answer.body.detail } });
  });

  it('refuses a device without a manifest, a revoked one, and all devices while commands are disabled', async () => {
    const bare = await register('esp32');
    expect((await command(bare, { action: 'turn_on' })).body).toMatchObject({
      status: 403,
      code: 'MANIFEST_NOT_FOUND',
      detail: expect.stringContaining('POST /v1/devices/{deviceId}/manifest'),
    });
    const id = await register();
    await service.flags.set('commands_disabled', true);
    const disabled = await command(id, { action: 'turn_on' });
    // The flag is checked before the existence of the device (contract §5).
    const missing = await command(v7(), { action: 'turn_on' });
    const batch = await mine.call('POST', '/devices/command', { device_ids: [v7()], action: 'turn_on' });
    const unconfirmed = await mine.call('POST', `/device/${v7()}/command/confirm`, { token: v7() });
    await service.flags.set('commands_disabled', false);
    for (const { body } of [missing, unconfirmed])
      expect(body).toMatchObject({ status: 503, code: 'COMMANDS_DISABLED' });
    expect(batch.body.results).toMatchObject([{ success: false, code: 'COMMANDS_DISABLED' }]);
    expect((await command(v7(), { action: 'turn_on' })).body).toMatchObject({ status: 404, code: 'NOT_FOUND' });
    expect(disabled.body).toMatchObject({ status: 503, code: 'COMMANDS_DISABLED' });
    expect(disabled.headers.get('retry-after')).toBeTruthy();
    await mine.call('POST', `/device/${id}/revoke`);
    expect((await command(id, { action: 'turn_on' })).body).toMatchObject({ status: 403, code: 'DEVICE_REVOKED' });
    const { commands } = (await mine.call('GET', `/device/${id}/commands`)).body;
    expect(commands.map((one: { status: string }) => one.status)).toEqual(['rejected', 'rejected']);
  });

  it('accepts a reinstated device again', async () => {
    const id = await register();
    await mine.call('POST', `/device/${id}/revoke`);
    await mine.call('POST', `/device/${id}/reinstate`, { reason: 'found' });
    expect((await command(id, { action: 'turn_on' })).status).toBe(202);
  });

  it.each([
    ['no action', {}],
    ['an action that is not a string', { action: 1 }],
    ['params that are not an object', { action: 'turn_on', params: [] }],
    ['an unknown field', { action: 'turn_on', force: true }],
    ['a dry_run that is not a boolean', { action: 'turn_on', dry_run: 'yes' }],
  ])('refuses %s without creating a command', async (_, body) => {
    const id = await register();
    const answer = await command(id, body);
    expect([answer.status, answer.body.code]).toEqual([400, 'VALIDATION_FAILED']);
    expect((await mine.call('GET', `/device/${id}/commands`)).body.commands).toEqual([]);
  });

  it("finds neither a missing device nor another tenant's, and creates no command", async () => {
    const { device_id: theirs } = await other.register();
    for (const id of [v7(), theirs, 'lamp']) {
      const answer = await command(id, { action: 'turn_on' });
      expect([answer.status, answer.body.code]).toEqual([404, 'NOT_FOUND']);
    }
    expect((await other.call('GET', `/device/${theirs}/commands`)).body.commands).toEqual([]);
  });

  it('requires the role user', async () => {
    const id = await register();
    const asViewer = await command(id, { action: 'turn_on' }, { token: mine.tokens.viewer });
    expect([asViewer.status, asViewer.body.code]).toEqual([403, 'FORBIDDEN_ROLE']);
    expect((await command(id, { action: 'turn_on' }, { token: mine.tokens.user })).status).toBe(202);
  });

  it('is refused during maintenance without creating a command', async () => {
    const id = await register();
    await service.flags.set('maintenance_mode', true);
    const answer = await command(id, { action: 'turn_on' });
    await service.flags.set('maintenance_mode', false);
    expect(answer.body).toMatchObject({ status: 503, code: 'MAINTENANCE' });
    expect((await mine.call('GET', `/device/${id}/commands`)).body.commands).toEqual([]);
  });

  it('creates one command for two requests with the same Idempotency-Key', async () => {
    const id = await register();
    const headers = { 'idempotency-key': v7() };
    const body = { action: 'turn_on' };
    const first = await command(id, body, { headers });
    const again = await command(id, body, { headers });
    expect([again.status, again.body, again.headers.get('idempotent-replayed')]).toEqual([202, first.body, 'true']);
    expect((await mine.call('GET', `/device/${id}/commands`)).body.commands).toHaveLength(1);
    expect((await command(id, { action: 'turn_off' }, { headers })).status).toBe(422);
  });

  it('repeats a dry run with its token, and checks a refused request again', async () => {
    const id = await register('lock');
    const headers = { 'idempotency-key': v7() };
    const first = await command(id, { action: 'unlock' }, { headers });
    const again = await command(id, { action: 'unlock' }, { headers });
    expect([first.status, again.status]).toEqual([409, 409]);
    expect(again.body.dry_run_token).toBe(first.body.dry_run_token);
    const bare = await register('esp32');
    const refused = { headers: { 'idempotency-key': v7() } };
    expect((await command(bare, { action: 'sing' }, refused)).status).toBe(403);
    await mine.call('POST', `/devices/${bare}/manifest`, { capabilities: [{ action: 'sing' }] });
    expect((await command(bare, { action: 'sing' }, refused)).status).toBe(202);
  });
});

describe('POST /commands/{id}/cancel', () => {
  it('cancels a command that waits for a confirmation or is not written yet', async () => {
    const lock = await register('lock');
    const { command_id: waiting } = await dryRun(lock);
    const { command_id: pending } = (await command(lock, { action: 'lock' })).body;
    for (const id of [waiting, pending]) {
      const answer = await cancel(id);
      expect([answer.status, answer.body]).toEqual([200, { status: 'cancelled', command_id: id }]);
      expect(await show(id)).toMatchObject({ status: 'cancelled' });
      const again = await cancel(id);
      expect([again.status, again.body.code]).toEqual([409, 'ILLEGAL_TRANSITION']);
    }
    await mine.connect(lock);
    expect(written).toEqual([]);
    mine.disconnect(lock);
  });

  it('is refused for a command that was written, refused, acknowledged or has ended', async () => {
    const id = await register();
    await command(id, { action: 'sing' });
    const [{ id: refused }] = (await mine.call('GET', `/device/${id}/commands`)).body.commands;
    await mine.connect(id);
    const states = ['dispatched', 'accepted', 'in_progress', 'succeeded', 'failed'] as const;
    const ids = [refused];
    for (const state of states) {
      const { command_id } = (await command(id, { action: 'turn_on' })).body;
      if (state !== 'dispatched') await mine.acknowledge(id, command_id, state);
      ids.push(command_id);
    }
    const { command_id: late } = (await command(id, { action: 'turn_on' })).body;
    service.clock.advance(30_000);
    await service.runtime.timers.tick();
    expect(await show(late)).toMatchObject({ status: 'timed_out' });
    for (const one of [...ids, late]) {
      const answer = await cancel(one);
      expect([answer.status, answer.body.code]).toEqual([409, 'ILLEGAL_TRANSITION']);
    }
    mine.disconnect(id);
  });

  it('works during maintenance, and requires the role user and a command of the tenant', async () => {
    const id = await register('lock');
    const { command_id } = await dryRun(id);
    expect((await cancel(command_id, { token: mine.tokens.viewer })).status).toBe(403);
    for (const one of [v7(), 'x']) expect((await cancel(one)).status).toBe(404);
    expect((await other.call('POST', `/commands/${command_id}/cancel`)).status).toBe(404);
    await service.flags.set('maintenance_mode', true);
    const answer = await cancel(command_id, { token: mine.tokens.user });
    await service.flags.set('maintenance_mode', false);
    expect(answer.status).toBe(200);
  });
});
