import { v7 } from 'uuid';
import { describe, expect, it } from 'vitest';
import { mine, other, service, withTwoTenants } from '../two-tenants.ts';

withTwoTenants();

const register = async (device_type = 'smart_light') => (await mine.register({ device_type })).device_id;
const command = async (id: string, body: object) => (await mine.call('POST', `/device/${id}/command`, body)).body;
const show = async (id: string) => (await mine.call('GET', `/commands/${id}`)).body.command;
const history = (id: string, query = '') => mine.call('GET', `/device/${id}/commands${query}`);
const now = () => new Date(service.clock.now()).toISOString();
const statuses = (timeline: { status: string }[]) => timeline.map(({ status }) => status);

describe('GET /device/{deviceId}/commands', () => {
  it('shows the fields of the specification', async () => {
    const id = await register();
    const { command_id } = await command(id, { action: 'set_brightness', params: { level: 1 } });
    const { status, body } = await history(id);
    expect(status).toBe(200);
    expect(body).toEqual({
      commands: [
        { id: command_id, action: 'set_brightness', params: { level: 1 }, timestamp: now(), status: 'dispatched' },
      ],
      count: 1,
      next_cursor: null,
    });
  });

  it('shows progress, refusals and errors as GET /commands/{id} does', async () => {
    const id = await register();
    await command(id, { action: 'sing' });
    await mine.connect(id);
    const { command_id: failed } = await command(id, { action: 'turn_on' });
    await mine.acknowledge(id, failed, 'in_progress', { progress: 25 });
    await mine.acknowledge(id, failed, 'failed', { error: { note: 'no bulb' } });
    const { command_id: running } = await command(id, { action: 'turn_off' });
    await mine.acknowledge(id, running, 'in_progress', { progress: 25 });
    await mine.acknowledge(id, running, 'in_progress', { progress: 50 });
    const { commands } = (await history(id)).body;
    expect(commands).toEqual([
      expect.objectContaining({ id: running, status: 'in_progress', progress: 50 }),
      expect.objectContaining({ id: failed, status: 'failed', progress: 25, error: { note: 'no bulb' } }),
      expect.objectContaining({
        status: 'rejected',
        refusal: { code: 'ACTION_NOT_IN_MANIFEST', detail: "The device does not offer 'sing'." },
      }),
    ]);
    for (const { id: one, status, progress, refusal, error } of commands)
      expect(await show(one)).toMatchObject({
        status,
        ...(progress && { progress }),
        ...(refusal && { refusal }),
        ...(error && { error }),
      });
    mine.disconnect(id);
  });

  it('lists newest first, in pages that insertions do not shift', async () => {
    const id = await register();
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.unshift((await command(id, { action: 'turn_on' })).command_id);
    const seen: string[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const { body } = await history(id, `?limit=2${cursor && `&cursor=${cursor}`}`);
      seen.push(...body.commands.map((one: { id: string }) => one.id));
      cursor = body.next_cursor;
      await command(id, { action: 'turn_off' });
    }
    expect(seen).toEqual(ids);
  });

  it('rejects a cursor of another device', async () => {
    const [first, second] = [await register(), await register()];
    for (const id of [first, first, second]) await command(id, { action: 'turn_on' });
    const { next_cursor } = (await history(first, '?limit=1')).body;
    const answer = await history(second, `?cursor=${next_cursor}`);
    expect([answer.status, answer.body.code]).toEqual([400, 'VALIDATION_FAILED']);
    expect((await history(first, '?limit=500')).status).toBe(400);
    expect((await history(first, '?status=dispatched')).status).toBe(400);
  });

  it('requires the role user and a device of the tenant', async () => {
    const id = await register();
    const { device_id: theirs } = await other.register();
    for (const one of [theirs, v7(), 'x']) expect((await history(one)).status).toBe(404);
    const asViewer = await mine.call('GET', `/device/${id}/commands`, undefined, { token: mine.tokens.viewer });
    expect(asViewer.status).toBe(403);
  });
});

describe('GET /commands/{id}', () => {
  it('shows a command from its request to its verified state', async () => {
    const id = await register();
    const requested = now();
    const { command_id } = await command(id, { action: 'set_brightness', params: { level: 40 } });
    expect(await show(command_id)).toEqual({
      id: command_id,
      device_id: id,
      action: 'set_brightness',
      params: { level: 40 },
      status: 'dispatched',
      safety_class: 'NORMAL',
      timestamp: requested,
      ttl_s: 60,
      timeout_s: 30,
      requested_by: mine.userId,
      verification: { status: 'pending', expected: { brightness: 40 }, checked_at: null },
      timeline: [
        { status: 'submitted', at: requested, by: mine.userId },
        { status: 'dispatched', at: requested, by: mine.userId },
      ],
    });
    service.clock.advance(1_000);
    await mine.connect(id);
    await mine.acknowledge(id, command_id, 'accepted');
    const accepted = now();
    service.clock.advance(1_000);
    await mine.report(id, { brightness: 39 });
    await mine.acknowledge(id, command_id, 'succeeded', { result: { took_ms: 12 } });
    service.clock.advance(1_000);
    await mine.report(id, { brightness: 40 });
    const shown = await show(command_id);
    expect(shown).toMatchObject({
      status: 'succeeded',
      result: { took_ms: 12 },
      verification: {
        status: 'verified',
        expected: { brightness: 40 },
        observed: { brightness: 40 },
        checked_at: now(),
      },
    });
    expect(statuses(shown.timeline)).toEqual(['submitted', 'dispatched', 'acknowledged', 'succeeded']);
    expect(shown.timeline[2]).toEqual({ status: 'acknowledged', at: accepted, by: id });
    mine.disconnect(id);
  });

  it('shows the reason of its refusal', async () => {
    const id = await register();
    await command(id, { action: 'sing' });
    const [{ id: refused }] = (await history(id)).body.commands;
    const shown = await show(refused);
    expect(shown).toMatchObject({
      status: 'rejected',
      safety_class: null,
      refusal: { code: 'ACTION_NOT_IN_MANIFEST', detail: "The device does not offer 'sing'." },
      verification: { status: 'unverifiable' },
    });
    expect(shown.timeline).toMatchObject([
      { status: 'submitted' },
      { status: 'rejected', reason: "The device does not offer 'sing'." },
    ]);
  });

  it('shows the users who confirmed and cancelled it, and the reason', async () => {
    const id = await register('lock');
    const { command_id, dry_run_token } = await command(id, { action: 'unlock' });
    const asUser = { token: mine.tokens.user };
    await mine.call('POST', `/device/${id}/command/confirm`, { dry_run_token }, asUser);
    const userId = (await service.call('GET', '/v1/auth/me', asUser)).body.user.id;
    await mine.call('POST', `/commands/${command_id}/cancel`, { reason: 'changed my mind' });
    const shown = await show(command_id);
    expect(shown).toMatchObject({ status: 'cancelled', requested_by: mine.userId, confirmed_by: userId });
    const at = now();
    expect(shown.timeline).toEqual([
      { status: 'submitted', at, by: mine.userId },
      { status: 'awaiting_confirmation', at, by: mine.userId },
      { status: 'dispatched', at, by: userId },
      { status: 'cancelled', at, by: mine.userId, reason: 'changed my mind' },
    ]);
  });

  it('shows failures, late acknowledgements, and timeouts', async () => {
    const id = await register();
    await mine.connect(id);
    const { command_id: failing } = await command(id, { action: 'turn_on' });
    await mine.acknowledge(id, failing, 'failed', { error: { code: 7, note: 'no bulb' } });
    expect(await show(failing)).toMatchObject({ status: 'failed', error: { code: 7, note: 'no bulb' } });

    const { command_id: slow } = await command(id, { action: 'turn_on' });
    service.clock.advance(30_000);
    await service.runtime.timers.tick();
    expect(await show(slow)).toMatchObject({ status: 'timed_out' });
    await mine.acknowledge(id, slow, 'succeeded');
    const shown = await show(slow);
    expect(shown).toMatchObject({ status: 'succeeded', late: true });
    expect(statuses(shown.timeline)).toEqual(['submitted', 'dispatched', 'timed_out', 'succeeded']);
    expect(shown.timeline[2]).toMatchObject({ by: 'twinkeep', reason: expect.any(String) });
    mine.disconnect(id);

    const { command_id: unwritten } = await command(id, { action: 'turn_on', ttl_s: 5 });
    service.clock.advance(5_000);
    await service.runtime.timers.tick();
    expect(await show(unwritten)).toMatchObject({
      ...{ status: 'expired', verification: { status: 'pending', expected: { on: true }, checked_at: null } },
    });
  });

  it('shows commands of a revoked device as ended', async () => {
    const id = await register();
    await mine.connect(id);
    const { command_id: written } = await command(id, { action: 'turn_on' });
    mine.disconnect(id);
    const { command_id: pending } = await command(id, { action: 'turn_off' });
    await mine.call('POST', `/device/${id}/revoke`);
    expect(await show(written)).toMatchObject({ status: 'timed_out' });
    expect(await show(pending)).toMatchObject({ status: 'cancelled' });
  });

  it("returns the same for a missing command and another tenant's, and requires the role user", async () => {
    const id = await register();
    const { command_id } = await command(id, { action: 'turn_on' });
    const { device_id: theirs } = await other.register();
    const foreign = await other.call('POST', `/device/${theirs}/command`, { action: 'turn_on' });
    const answers = await Promise.all(
      [v7(), foreign.body.command_id, 'x', id].map((one) => mine.call('GET', `/commands/${one}`)),
    );
    const bodies = answers.map(({ body: { instance: _, request_id: __, ...rest } }) => rest);
    for (const body of bodies) expect(body).toEqual({ ...bodies[0], status: 404, code: 'NOT_FOUND' });
    const asViewer = await mine.call('GET', `/commands/${command_id}`, undefined, { token: mine.tokens.viewer });
    expect(asViewer.status).toBe(403);
  });
});
