import { createHash } from 'node:crypto';
import { v7 } from 'uuid';
import { describe, expect, it } from 'vitest';
import type { CallOptions } from '../../../support/http-service.ts';
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

const UUID_4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

withCommandService();

const confirm = (id: string, body: object, sent?: CallOptions) =>
  mine.call('POST', `/device/${id}/command/confirm`, body, sent);

describe('a dry run', () => {
  it('is required for a critical action with 409, in the shape of the specification', async () => {
    const id = await register('lock');
    await mine.connect(id);
    await mine.report(id, { locked: true, battery: 80 });
    const answer = await command(id, { action: 'unlock' });
    expect(answer.status).toBe(409);
    expect(answer.headers.get('content-type')).toContain('application/json');
    const { now } = service.clock;
    expect(answer.body).toEqual({
      status: 'dry_run_required',
      reason: expect.any(String),
      dry_run_token: expect.stringMatching(UUID_4),
      expires_at: new Date(now() + 300_000).toISOString(),
      command_id: expect.stringMatching(UUID),
      preview: {
        // Not the battery: the action does not name it.
        current: { locked: true },
        expected: { locked: false },
        changes: { locked: { from: true, to: false } },
        device: { name: null, home_id: mine.homeId, room_id: null },
      },
      code: 'DRY_RUN_REQUIRED',
      request_id: answer.headers.get('x-request-id'),
    });
    expect(written).toEqual([]);
    expect(await show(answer.body.command_id)).toMatchObject({ status: 'awaiting_confirmation' });
    mine.disconnect(id);
  });

  it('is answered with 200 when requested explicitly, for each class', async () => {
    const light = await register();
    const normal = await command(light, { action: 'set_brightness', params: { level: 30 }, dry_run: true });
    expect(normal.status).toBe(200);
    expect(Object.keys(normal.body).sort()).toEqual(
      ['command_id', 'dry_run_token', 'expires_at', 'preview', 'reason', 'status'].sort(),
    );
    expect(normal.body.preview).toMatchObject({
      current: {},
      expected: { brightness: 30 },
      changes: { brightness: { from: null, to: 30 } },
    });
    const lock = await register('lock');
    expect((await command(lock, { action: 'unlock', dry_run: true })).status).toBe(200);
    expect((await command(lock, { action: 'unlock', dry_run: false })).status).toBe(409);
  });

  it('has no preview if supportsDryRun is false', async () => {
    const id = await register();
    const capability = { action: 'glow', supportsDryRun: false, expectedState: { glowing: true } };
    await mine.call('POST', `/devices/${id}/manifest`, { capabilities: [capability] });
    const { body } = await command(id, { action: 'glow', dry_run: true });
    expect(body.preview).toMatchObject({ current: {}, expected: null, changes: null });
  });

  it('stores its token as a hash only', async () => {
    const id = await register('lock');
    const { command_id, dry_run_token } = await dryRun(id);
    const { store } = service.services;
    const kept = [
      await store.actors.load('command', [command_id]),
      await store.actors.journal({ kind: 'command', id: command_id }, 10),
      await show(command_id),
    ];
    expect(JSON.stringify(kept)).not.toContain(dry_run_token);
    expect(JSON.stringify(kept[0])).toContain(createHash('sha256').update(dry_run_token).digest('hex'));
  });
});

describe('POST /device/{deviceId}/command/confirm', () => {
  it('dispatches the confirmed command, with its original ids', async () => {
    const id = await register('lock');
    await mine.connect(id);
    const { command_id, dry_run_token } = await dryRun(id);
    const answer = await confirm(id, { dry_run_token });
    expect(answer.status).toBe(202);
    expect(answer.body).toEqual({ success: true, command_id, message_id: expect.stringMatching(UUID) });
    expect(written).toEqual([command_id]);
    expect(await contextOf(command_id)).toMatchObject({ fixed: { messageId: answer.body.message_id } });
    expect(await show(command_id)).toMatchObject({
      status: 'dispatched',
      requested_by: mine.userId,
      confirmed_by: mine.userId,
    });
    mine.disconnect(id);
  });

  it('accepts the token under either name, and under both when they agree', async () => {
    const id = await register('lock');
    const bodies = [(t: string) => ({ token: t }), (t: string) => ({ token: t, dry_run_token: t })];
    for (const body of [...bodies, (t: string) => ({ dry_run_token: t.toUpperCase() })]) {
      const { dry_run_token } = await dryRun(id);
      expect((await confirm(id, body(dry_run_token))).status).toBe(202);
    }
    const { dry_run_token } = await dryRun(id);
    for (const body of [{}, { dry_run_token, token: v7() }, { dry_run_token: 1 }, { dry_run_token, more: 1 }]) {
      const answer = await confirm(id, body);
      expect([answer.status, answer.body.code]).toEqual([400, 'VALIDATION_FAILED']);
    }
    expect((await confirm(id, { dry_run_token })).status).toBe(202);
  });

  const failing = async (id: string, token: string) => {
    const answer = await confirm(id, { dry_run_token: token });
    expect([answer.status, answer.body.code]).toEqual([403, 'CONFIRMATION_FAILED']);
  };

  it('fails with a confirmation error for any text in place of the token', async () => {
    const id = await register('lock');
    for (const token of ['', 'no token', 'x'.repeat(10_000)]) await failing(id, token);
  });

  it('works once, also for concurrent requests', async () => {
    const id = await register('lock');
    const { dry_run_token } = await dryRun(id);
    const answers = await Promise.all([1, 2, 3].map(() => confirm(id, { dry_run_token })));
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 403, 403]);
    await failing(id, dry_run_token);
  });

  it('answers a repeat with the same Idempotency-Key with the same 202', async () => {
    const id = await register('lock');
    const { dry_run_token } = await dryRun(id);
    const sent = { headers: { 'idempotency-key': v7() } };
    const first = await confirm(id, { dry_run_token }, sent);
    const again = await confirm(id, { dry_run_token }, sent);
    expect([again.status, again.body]).toEqual([202, first.body]);
  });

  it('fails with an unknown token, or one of another device', async () => {
    const [id, second] = [await register('lock'), await register('lock')];
    const { dry_run_token } = await dryRun(id);
    await failing(id, v7());
    await failing(id, 'x');
    await failing(second, dry_run_token);
    expect((await confirm(id, { dry_run_token })).status).toBe(202);
  });

  it('fails when the token has expired, and with it the command', async () => {
    const id = await register('lock');
    const { command_id, dry_run_token } = await dryRun(id);
    service.clock.advance(300_000);
    await failing(id, dry_run_token);
    await service.runtime.timers.tick();
    expect(await show(command_id)).toMatchObject({ status: 'expired' });
    await failing(id, dry_run_token);
  });

  it('fails when the manifest has changed in between', async () => {
    const id = await register('lock');
    const { dry_run_token } = await dryRun(id);
    const unlock = { action: 'unlock', supportsDryRun: true, expectedState: { locked: false } };
    const made = await mine.call('POST', `/devices/${id}/manifest`, { capabilities: [unlock] });
    expect(made.status).toBe(201);
    await failing(id, dry_run_token);
  });

  it('fails after a cancellation', async () => {
    const id = await register('lock');
    const { command_id, dry_run_token } = await dryRun(id);
    await cancel(command_id);
    await failing(id, dry_run_token);
  });

  it('runs the gateway again: a revoked device is refused', async () => {
    const id = await register('lock');
    const { command_id, dry_run_token } = await dryRun(id);
    await mine.call('POST', `/device/${id}/revoke`);
    const answer = await confirm(id, { dry_run_token });
    expect([answer.status, answer.body.code]).toEqual([403, 'DEVICE_REVOKED']);
    expect(await show(command_id)).toMatchObject({ status: 'cancelled' });
  });

  it('keeps the token while commands are disabled', async () => {
    const id = await register('lock');
    const { dry_run_token } = await dryRun(id);
    await service.flags.set('commands_disabled', true);
    const disabled = await confirm(id, { dry_run_token });
    await service.flags.set('commands_disabled', false);
    expect([disabled.status, disabled.body.code]).toEqual([503, 'COMMANDS_DISABLED']);
    expect((await confirm(id, { dry_run_token })).status).toBe(202);
  });

  it('follows the policy of the tenant', async () => {
    const id = await register('lock');
    const policy = { confirm_by: 'another_principal', confirm_ttl_s: 60 } as const;
    const event = { type: 'policy.set', at: service.clock.now(), policy };
    await service.runtime.actors.send({ kind: 'tenant', id: mine.tenantId }, event);
    const { dry_run_token, expires_at } = await dryRun(id);
    expect(Date.parse(expires_at)).toBe(service.clock.now() + 60_000);
    await failing(id, dry_run_token);
    expect((await confirm(id, { dry_run_token }, { token: mine.tokens.user })).status).toBe(202);
  });

  it('requires the role user and a device of the tenant', async () => {
    const id = await register('lock');
    const { dry_run_token } = await dryRun(id);
    expect((await confirm(id, { dry_run_token }, { token: mine.tokens.viewer })).status).toBe(403);
    const path = `/device/${id}/command/confirm`;
    expect((await other.call('POST', path, { dry_run_token })).status).toBe(404);
    expect((await confirm(v7(), { dry_run_token })).status).toBe(404);
  });
});
