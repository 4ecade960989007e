import { v7 } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { CallOptions, HttpService } from '../../../support/http-service.ts';
import { setPolicy } from '../../../support/safety-policy.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let other: TestTenant;
let lock: string;
let written: string[];
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  other = await makeTestTenant(service);
  service.runtime.actors.subscribe('command.write', ({ commandId }) => void written.push(commandId));
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
  lock = (await mine.register({ device_type: 'lock' })).device_id;
  written = [];
});
afterAll(() => service.close());

const unlock = async (sent?: CallOptions) =>
  (await mine.call('POST', `/device/${lock}/command`, { action: 'unlock' }, sent)).body;
const inbox = async (query = '', sent?: CallOptions) =>
  (await mine.call('GET', `/confirmations${query}`, undefined, sent)).body;
const waitingIds = async () =>
  (await inbox()).confirmations.map(({ command_id }: { command_id: string }) => command_id);
const approve = (id: string, sent?: CallOptions) => mine.call('POST', `/confirmations/${id}/approve`, undefined, sent);
const refuse = (id: string, body: object = {}, sent?: CallOptions) =>
  mine.call('POST', `/confirmations/${id}/refuse`, body, sent);
const show = async (id: string) => (await mine.call('GET', `/commands/${id}`)).body.command;
const coded = ({ status, body }: { status: number; body: { code?: string } }) => [status, body.code];

describe('GET /confirmations', () => {
  it('shows pending commands, with the effect of a confirmation', async () => {
    await mine.connect(lock);
    await mine.report(lock, { locked: true });
    const { command_id, expires_at, preview, reason } = await unlock({ token: mine.tokens.user });
    const requester = (await service.call('GET', '/v1/auth/me', { token: mine.tokens.user })).body.user.id;
    const answer = await mine.call('GET', '/confirmations');
    expect([answer.status, answer.body]).toEqual([
      200,
      {
        confirmations: [
          {
            command_id,
            device_id: lock,
            action: 'unlock',
            params: {},
            reason,
            preview,
            preview_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
            requested_by: requester,
            requested_with: { kind: 'person' },
            requested_at: new Date(service.clock.now()).toISOString(),
            expires_at,
          },
        ],
        count: 1,
        next_cursor: null,
      },
    ]);
    expect(preview.changes).toEqual({ locked: { from: true, to: false } });
    expect(JSON.stringify(answer.body)).not.toMatch(/token/i);
    mine.disconnect(lock);
  });

  it('lists dry runs only with dry_runs=true, and nothing that has ended', async () => {
    const dryRun = async (action: string) =>
      (await mine.call('POST', `/device/${lock}/command`, { action, dry_run: true })).body.command_id;
    const [normal, critical, waiting] = [await dryRun('lock'), await dryRun('unlock'), (await unlock()).command_id];
    const [confirmed, cancelled, refused] = [await unlock(), await unlock(), await unlock()];
    await mine.call('POST', `/device/${lock}/command`, { action: 'lock' });
    await mine.call('POST', `/device/${lock}/command`, { action: 'fly' });
    await approve(confirmed.command_id);
    await mine.call('POST', `/commands/${cancelled.command_id}/cancel`);
    await refuse(refused.command_id);
    expect(await waitingIds()).toEqual([waiting]);
    const { confirmations, count } = await inbox('?dry_runs=true');
    expect(confirmations.map(({ command_id }: { command_id: string }) => command_id)).toEqual([critical, normal]);
    expect([count, confirmations[1].reason]).toEqual([2, 'A dry run was requested.']);
    const first = await inbox('?dry_runs=true&limit=1');
    expect((await mine.call('GET', `/confirmations?cursor=${first.next_cursor}`)).status).toBe(400);
    expect((await approve(normal)).status).toBe(202);
    expect((await inbox('?dry_runs=true')).count).toBe(1);
  });

  it('is ordered newest first, in pages that insertions do not shift', async () => {
    const requested: string[] = [];
    for (let n = 0; n < 5; n++) {
      requested.unshift((await unlock()).command_id);
      if (n % 2 === 0) service.clock.advance(1);
    }
    const first = await inbox('?limit=2');
    const late = (await unlock()).command_id;
    const second = await inbox(`?limit=2&cursor=${first.next_cursor}`);
    const third = await inbox(`?limit=2&cursor=${second.next_cursor}`);
    const seen = [first, second, third].flatMap(({ confirmations }) =>
      confirmations.map(({ command_id }: { command_id: string }) => command_id),
    );
    expect(seen).toEqual(requested);
    expect([third.next_cursor, (await waitingIds())[0]]).toEqual([null, late]);
    const foreign = (await mine.call('GET', '/devices?limit=1')).body.next_cursor ?? 'x';
    for (const query of ['?cursor=nonsense', `?cursor=${foreign}`, '?limit=0', '?limit=201', '?status=all']) {
      expect(coded(await mine.call('GET', `/confirmations${query}`))).toEqual([400, 'VALIDATION_FAILED']);
    }
  });

  it('keeps an entry until the last millisecond of its deadline, independent of the timer', async () => {
    const { command_id } = await unlock();
    service.clock.advance(299_999);
    expect(await waitingIds()).toEqual([command_id]);
    service.clock.advance(1);
    expect(await waitingIds()).toEqual([]);
  });

  it('contains one tenant only, and requires the role user', async () => {
    const { command_id } = await unlock();
    expect((await other.call('GET', '/confirmations')).body.confirmations).toEqual([]);
    expect(coded(await mine.call('GET', '/confirmations', undefined, { token: mine.tokens.viewer }))).toEqual([
      403,
      'FORBIDDEN_ROLE',
    ]);
    expect((await inbox('', { token: mine.tokens.user })).confirmations[0].command_id).toBe(command_id);
    expect((await service.call('GET', '/v1/confirmations')).status).toBe(401);
  });

  it('omits commands of revoked devices', async () => {
    await unlock();
    await mine.call('POST', `/device/${lock}/revoke`);
    expect(await waitingIds()).toEqual([]);
  });

  it('needs one query for a page', async () => {
    for (let n = 0; n < 3; n++) await unlock();
    const { commands } = service.services.store;
    const { awaitingConfirmation } = commands;
    let requested = 0;
    commands.awaitingConfirmation = (...given) => {
      requested++;
      return awaitingConfirmation(...given);
    };
    await inbox();
    commands.awaitingConfirmation = awaitingConfirmation;
    expect(requested).toBe(1);
  });
});

describe('POST /confirmations/{command_id}/approve', () => {
  it('sends the command and records the user', async () => {
    await mine.connect(lock);
    const { command_id } = await unlock({ token: mine.tokens.user });
    const answer = await approve(command_id, { token: mine.tokens.admin });
    expect([answer.status, answer.body]).toEqual([
      202,
      { success: true, command_id, message_id: expect.stringMatching(/^[0-9a-f-]{36}$/) },
    ]);
    expect(written).toEqual([command_id]);
    const admin = (await service.call('GET', '/v1/auth/me', { token: mine.tokens.admin })).body.user.id;
    expect(await show(command_id)).toMatchObject({ status: 'dispatched', confirmed_by: admin });
    mine.disconnect(lock);
  });

  it('of a command in memory reads nothing from the store', async () => {
    const { command_id } = await unlock();
    const { store } = service.services;
    const { load } = store.actors;
    const { manifests } = store.devices;
    // Timers of other tests may load their commands at any moment.
    const involved = [command_id, lock, mine.tenantId];
    const requested: string[] = [];
    store.actors.load = (kind, ids) => {
      if (ids.some((id) => involved.includes(id))) requested.push(kind);
      return load(kind, ids);
    };
    store.devices.manifests = (ids) => {
      if (ids.includes(lock)) requested.push('manifests');
      return manifests(ids);
    };
    const { status } = await approve(command_id);
    store.actors.load = load;
    store.devices.manifests = manifests;
    expect([status, requested]).toEqual([202, []]);
  });

  it('accepts an empty object, no body, and nothing else', async () => {
    const { command_id } = await unlock();
    const path = `/confirmations/${command_id}/approve`;
    for (const body of [{ reason: 'yes' }, { dry_run_token: v7() }, []]) {
      expect(coded(await mine.call('POST', path, body))).toEqual([400, 'VALIDATION_FAILED']);
    }
    expect((await mine.call('POST', path, {})).status).toBe(202);
    expect((await approve((await unlock()).command_id)).status).toBe(202);
  });

  it('works once: a second approval and the token are refused', async () => {
    const { command_id, dry_run_token } = await unlock();
    const answers = await Promise.all([approve(command_id), approve(command_id), approve(command_id)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409, 409]);
    const again = await approve(command_id);
    expect(coded(again)).toEqual([409, 'ILLEGAL_TRANSITION']);
    expect(again.body.detail).toBe('The command is dispatched and does not wait for a confirmation.');
    expect(coded(await mine.call('POST', `/device/${lock}/command/confirm`, { dry_run_token }))).toEqual([
      403,
      'CONFIRMATION_FAILED',
    ]);
  });

  it('after a confirmation by token, a refusal or a cancellation is 409', async () => {
    const [confirmed, refused, cancelled] = [await unlock(), await unlock(), await unlock()];
    await mine.call('POST', `/device/${lock}/command/confirm`, { dry_run_token: confirmed.dry_run_token });
    await refuse(refused.command_id);
    await mine.call('POST', `/commands/${cancelled.command_id}/cancel`);
    for (const { command_id } of [confirmed, refused, cancelled]) {
      expect(coded(await approve(command_id))).toEqual([409, 'ILLEGAL_TRANSITION']);
    }
  });

  it('of a command without a required confirmation is 409', async () => {
    const normal = await mine.call('POST', `/device/${lock}/command`, { action: 'lock' });
    expect(coded(await approve(normal.body.command_id))).toEqual([409, 'ILLEGAL_TRANSITION']);
    expect(coded(await refuse(normal.body.command_id))).toEqual([409, 'ILLEGAL_TRANSITION']);
  });

  it('is possible until the announced deadline, also under a later policy with more time', async () => {
    await mine.call('PATCH', '/tenant/policy', { confirm_ttl_s: 60 });
    const [kept, late] = [await unlock(), await unlock()];
    expect(Date.parse(kept.expires_at)).toBe(service.clock.now() + 60_000);
    await setPolicy(mine, { confirm_ttl_s: 86_400 });
    service.clock.advance(59_999);
    expect((await approve(kept.command_id)).status).toBe(202);
    service.clock.advance(1);
    expect(coded(await approve(late.command_id))).toEqual([409, 'ILLEGAL_TRANSITION']);
    await service.runtime.timers.tick();
    expect(await show(late.command_id)).toMatchObject({ status: 'expired' });
    expect(coded(await approve(late.command_id))).toEqual([409, 'ILLEGAL_TRANSITION']);
  });

  it('runs the gateway again', async () => {
    const { command_id } = await unlock();
    await service.flags.set('commands_disabled', true);
    const disabled = await approve(command_id);
    await service.flags.set('commands_disabled', false);
    expect(coded(disabled)).toEqual([503, 'COMMANDS_DISABLED']);
    await mine.call('POST', `/devices/${lock}/manifest`, {
      capabilities: [{ action: 'unlock', supportsDryRun: true, expectedState: { locked: false } }],
    });
    expect(coded(await approve(command_id))).toEqual([403, 'CONFIRMATION_FAILED']);
    expect(await show(command_id)).toMatchObject({ status: 'awaiting_confirmation' });
    await mine.call('POST', `/device/${lock}/revoke`);
    expect(coded(await approve(command_id))).toEqual([403, 'DEVICE_REVOKED']);
    expect(await show(command_id)).toMatchObject({ status: 'cancelled' });
    expect(written).toEqual([]);
  });

  it('of an update is refused after its release was withdrawn', async () => {
    const draft = {
      device_type: 'door_lock',
      version: '2.0.0',
      url: 'https://example.com/a.bin',
      checksum: 'a'.repeat(64),
    };
    const { id } = (await mine.call('POST', '/firmware/release', draft)).body;
    await mine.call('POST', `/firmware/${id}/release`);
    const { device_id } = await mine.register({ device_type: 'door_lock' });
    const update = async () =>
      (
        await mine.call('POST', `/device/${device_id}/command`, {
          action: 'update_firmware',
          params: { firmware_id: id },
        })
      ).body.command_id;
    const [good, late] = [await update(), await update()];
    expect((await approve(good)).status).toBe(202);
    await mine.call('POST', `/firmware/${id}/withdraw`);
    expect(coded(await approve(late))).toEqual([400, 'PARAMS_INVALID']);
    expect(await show(late)).toMatchObject({ status: 'awaiting_confirmation' });
    expect((await refuse(late)).status).toBe(200);
  });

  it('is refused during maintenance; refusing works', async () => {
    const { command_id } = await unlock();
    await service.flags.set('maintenance_mode', true);
    const [approved, listed, refused] = [await approve(command_id), await inbox(), await refuse(command_id)];
    await service.flags.set('maintenance_mode', false);
    expect(coded(approved)).toEqual([503, 'MAINTENANCE']);
    expect(listed.confirmations).toHaveLength(1);
    expect(refused.status).toBe(200);
  });

  it('repeats its response for the same Idempotency-Key', async () => {
    const { command_id } = await unlock();
    const sent = { headers: { 'idempotency-key': v7() } };
    const [first, again] = [await approve(command_id, sent), await approve(command_id, sent)];
    expect([again.status, again.body, again.headers.get('idempotent-replayed')]).toEqual([202, first.body, 'true']);
  });

  it('and refuse are 404 for missing commands, another tenant’s and invalid ids, with the same body', async () => {
    const { command_id } = await unlock();
    for (const verb of ['approve', 'refuse']) {
      const answers = [
        await other.call('POST', `/confirmations/${command_id}/${verb}`),
        await mine.call('POST', `/confirmations/${v7()}/${verb}`),
        await mine.call('POST', `/confirmations/nonsense/${verb}`),
      ];
      expect(answers.map(coded)).toEqual([1, 2, 3].map(() => [404, 'NOT_FOUND']));
      expect(new Set(answers.map(({ body }) => body.detail)).size).toBe(1);
    }
    expect(await waitingIds()).toEqual([command_id]);
  });
});

describe('POST /confirmations/{command_id}/refuse', () => {
  it('ends the command, with user and reason in its timeline', async () => {
    const { command_id } = await unlock();
    const answer = await refuse(command_id, { reason: 'Nobody is at home.' }, { token: mine.tokens.user });
    expect([answer.status, answer.body]).toEqual([200, { status: 'cancelled', command_id }]);
    const by = (await service.call('GET', '/v1/auth/me', { token: mine.tokens.user })).body.user.id;
    const command = await show(command_id);
    expect(command.status).toBe('cancelled');
    expect(command.timeline.at(-1)).toMatchObject({ status: 'cancelled', by, reason: 'Nobody is at home.' });
    expect(command.confirmed_by).toBeUndefined();
  });

  it('is refused for an approved command, even while it waits for its device', async () => {
    const { command_id } = await unlock();
    await approve(command_id);
    expect(coded(await refuse(command_id))).toEqual([409, 'ILLEGAL_TRANSITION']);
    expect(await show(command_id)).toMatchObject({ status: 'dispatched' });
  });

  it('requires no reason, and refuses an invalid one', async () => {
    const { command_id } = await unlock();
    for (const reason of [7, null, 'x'.repeat(5_000), '\u0000']) {
      expect(coded(await refuse(command_id, { reason }))).toEqual([400, 'VALIDATION_FAILED']);
    }
    expect((await mine.call('POST', `/confirmations/${command_id}/refuse`)).status).toBe(200);
  });

  it('is allowed to users that the policy does not let approve, and not to a viewer', async () => {
    await mine.call('PATCH', '/tenant/policy', { confirm_by: 'another_principal' });
    const { command_id } = await unlock();
    expect(coded(await refuse(command_id, {}, { token: mine.tokens.viewer }))).toEqual([403, 'FORBIDDEN_ROLE']);
    expect(coded(await approve(command_id))).toEqual([403, 'CONFIRMATION_FAILED']);
    expect((await refuse(command_id)).status).toBe(200);
  });

  it('works once, and repeats its response for the same Idempotency-Key', async () => {
    const { command_id } = await unlock();
    const sent = { headers: { 'idempotency-key': v7() } };
    const first = await refuse(command_id, { reason: 'no' }, sent);
    const again = await refuse(command_id, { reason: 'no' }, sent);
    expect([again.body, again.headers.get('idempotent-replayed')]).toEqual([first.body, 'true']);
    expect(coded(await refuse(command_id, { reason: 'never' }, sent))).toEqual([422, 'IDEMPOTENCY_MISMATCH']);
    expect(coded(await refuse(command_id))).toEqual([409, 'ILLEGAL_TRANSITION']);
  });
});
