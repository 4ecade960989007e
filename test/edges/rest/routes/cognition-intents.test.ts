import { v7 } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Scope } from '../../../../src/domain/scopes.ts';
import { StoreUnavailable } from '../../../../src/store/contract.ts';
import { fakeCredential, fakeVerifier } from '../../../support/fake-verifier.ts';
import type { CallOptions, HttpService } from '../../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let other: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase({ verifiers: [fakeVerifier] });
  other = await makeTestTenant(service);
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

const UUID = /^[0-9a-f-]{36}$/;
const intent = (type: string, payload: object, sent?: CallOptions) =>
  mine.call('POST', '/intent', { type, payload }, sent);
const device = (device_id: string, action: string, params?: object, sent?: CallOptions) =>
  intent('device.control', { device_id, action, ...(params && { params }) }, sent);
const register = async (more: Record<string, string> = {}) => (await mine.register(more)).device_id;
const inKitchen = (device_type: string) => register({ device_type, room_id: mine.roomId });
const refusal = ({ status, body }: { status: number; body: { code?: string } }) => [status, body.code];

describe('device.control', () => {
  it('dispatches one command and answers in the shape of the specification', async () => {
    const id = await register();
    const answer = await device(id, 'set_brightness', { level: 40 });
    expect([answer.status, answer.body]).toEqual([
      200,
      {
        status: 'SUCCESS',
        mode: 'CLOUD_DIRECT',
        commands_executed: 1,
        commands_rejected: 0,
        results: [
          {
            device_id: id,
            action: 'set_brightness',
            status: 'dispatched',
            command_id: expect.stringMatching(UUID),
          },
        ],
      },
    ]);
    const { command } = (await mine.call('GET', `/commands/${answer.body.results[0].command_id}`)).body;
    expect(command).toMatchObject({ status: 'dispatched', params: { level: 40 }, requested_by: mine.userId });
  });

  it('is served under both roots', async () => {
    const id = await register();
    const body = { type: 'device.control', payload: { device_id: id, action: 'turn_on' } };
    const answer = await service.call('POST', '/api/v1/intent', { token: mine.tokens.user, body });
    expect([answer.status, answer.body.status]).toEqual([200, 'SUCCESS']);
  });

  it('has mode CLOUD_ENHANCED if a sidecar is connected', async () => {
    const id = await register();
    const { connected } = service.services.sidecar;
    service.services.sidecar.connected = () => true;
    const answer = await device(id, 'turn_on');
    service.services.sidecar.connected = connected;
    expect(answer.body.mode).toBe('CLOUD_ENHANCED');
  });

  it('refused by the gateway is REJECTED, with the code, and stored in the history', async () => {
    const id = await register();
    const cases = [
      ['fly', {}, 'ACTION_NOT_IN_MANIFEST'],
      ['rotate_key', {}, 'RESTRICTED_ACTION'],
      ['set_brightness', { level: 400 }, 'PARAMS_INVALID'],
    ] as const;
    for (const [action, params, code] of cases) {
      const { status, body } = await device(id, action, params);
      expect(status).toBe(200);
      expect(body).toMatchObject({ status: 'REJECTED', commands_executed: 0, commands_rejected: 1 });
      expect(body.results).toEqual([
        {
          device_id: id,
          action,
          status: 'rejected',
          command_id: expect.stringMatching(UUID),
          code,
          error: expect.any(String),
        },
      ]);
    }
    const { commands } = (await mine.call('GET', `/device/${id}/commands`)).body;
    expect(commands.map(({ status }: { status: string }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  });

  it('of a critical action is PENDING with a token, and dispatched after the confirmation', async () => {
    const id = await register({ device_type: 'lock' });
    const { status, body } = await device(id, 'unlock');
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: 'PENDING', commands_executed: 0, commands_rejected: 0 });
    const [{ command_id, dry_run_token }] = body.results;
    expect(body.results).toEqual([
      {
        device_id: id,
        action: 'unlock',
        status: 'dry_run_required',
        command_id: expect.stringMatching(UUID),
        dry_run_token: expect.stringMatching(UUID),
        expires_at: new Date(service.clock.now() + 300_000).toISOString(),
      },
    ]);
    const confirmed = await mine.call('POST', `/device/${id}/command/confirm`, { dry_run_token });
    expect([confirmed.status, confirmed.body.command_id]).toEqual([202, command_id]);
  });

  it('is 404 for a missing device, another tenant’s or an invalid id, with the same body', async () => {
    const theirs = (await other.register()).device_id;
    const answers = await Promise.all([theirs, v7(), 'lamp'].map((id) => device(id, 'turn_on')));
    expect(answers.map(refusal)).toEqual([1, 2, 3].map(() => [404, 'NOT_FOUND']));
    expect(new Set(answers.map(({ body }) => body.detail)).size).toBe(1);
  });
});

describe('room.control and group.control', () => {
  it('commands every device, or those of a category, independently', async () => {
    const lights = [await inKitchen('smart_light'), await inKitchen('smart_light')];
    const blind = await inKitchen('cover');
    const all = await intent('room.control', { room_id: mine.roomId, action: 'turn_on' });
    expect(all.body).toMatchObject({ status: 'PARTIAL', commands_executed: 2, commands_rejected: 1 });
    const refused = all.body.results.find(({ device_id }: { device_id: string }) => device_id === blind);
    expect(refused).toMatchObject({ status: 'rejected', code: 'ACTION_NOT_IN_MANIFEST' });
    const some = await intent('room.control', { room_id: mine.roomId, action: 'turn_on', capability: 'light' });
    expect(some.body).toMatchObject({ status: 'SUCCESS', commands_executed: 2 });
    expect(some.body.results.map(({ device_id }: { device_id: string }) => device_id).sort()).toEqual(lights.sort());
    const none = await intent('room.control', { room_id: mine.roomId, action: 'turn_on', capability: 'valve' });
    expect(none.body).toMatchObject({ status: 'SUCCESS', commands_executed: 0, commands_rejected: 0, results: [] });
    const wrong = await intent('room.control', { room_id: mine.roomId, action: 'fly' });
    expect(wrong.body).toMatchObject({ status: 'REJECTED', commands_rejected: 3 });
  });

  it('is PENDING if one command waits for a confirmation', async () => {
    const [light, lock] = [await register(), await register({ device_type: 'lock' })];
    await mine.call('POST', '/groups', { name: 'Front', device_ids: [light, lock] });
    const reboot = await intent('group.control', { slug: 'front', action: 'reboot' });
    expect(reboot.body).toMatchObject({ status: 'PENDING', commands_executed: 0, commands_rejected: 0 });
    const unlock = await intent('group.control', { slug: 'front', action: 'unlock' });
    expect(unlock.body).toMatchObject({ status: 'PENDING', commands_executed: 0, commands_rejected: 1 });
    const { confirmations } = (await mine.call('GET', '/confirmations')).body;
    expect(confirmations.map(({ action }: { action: string }) => action).sort()).toEqual([
      'reboot',
      'reboot',
      'unlock',
    ]);
  });

  it('is 404 for missing targets, another tenant’s or invalid ids', async () => {
    await other.call('POST', '/groups', { name: 'Theirs' });
    for (const room_id of [other.roomId, v7(), 'kitchen']) {
      expect(refusal(await intent('room.control', { room_id, action: 'turn_on' }))).toEqual([404, 'NOT_FOUND']);
    }
    for (const slug of ['theirs', 'nothing', 'NO SLUG']) {
      expect(refusal(await intent('group.control', { slug, action: 'turn_on' }))).toEqual([404, 'NOT_FOUND']);
    }
  });
});

describe('an intent', () => {
  it('of an unknown type, or with unknown fields, is 400', async () => {
    const id = await register();
    const payload = { device_id: id, action: 'turn_on' };
    const bodies = [
      { type: 'plan.execute', payload: { plan: {} } },
      { type: 'device.dance', payload },
      { payload },
      { type: 'device.control' },
      { type: 'device.control', payload: { ...payload, room_id: mine.roomId } },
      { type: 'device.control', payload, more: 1 },
      { type: 'device.control', payload: { device_id: 7, action: 'turn_on' } },
      { type: 'device.control', payload: { device_id: id } },
      { type: 'room.control', payload: { room_id: mine.roomId, action: 'turn_on', capability: 'spaceship' } },
      { type: 'group.control', payload: { group: 'front', action: 'turn_on' } },
      { type: 'goal', payload: {} },
      {},
    ];
    for (const body of bodies) {
      expect(refusal(await mine.call('POST', '/intent', body))).toEqual([400, 'VALIDATION_FAILED']);
    }
    const unknown = await mine.call('POST', '/intent', { type: 'device.dance', payload });
    expect(unknown.body.errors).toEqual([{ path: 'type', message: 'is not a known intent type' }]);
  });

  it('with a goal requires a sidecar', async () => {
    expect(refusal(await intent('goal', { text: 'make it cosy' }))).toEqual([503, 'SIDECAR_UNAVAILABLE']);
    await service.flags.set('cognition_disabled', true);
    const stopped = await intent('goal', { text: 'make it cosy', home_id: mine.homeId });
    const direct = await device(await register(), 'turn_on');
    await service.flags.set('cognition_disabled', false);
    expect(refusal(stopped)).toEqual([503, 'COGNITION_DISABLED']);
    expect(direct.body.status).toBe('SUCCESS');
  });

  it('is refused command by command while commands are disabled, and as a whole during maintenance', async () => {
    const id = await register();
    await service.flags.set('commands_disabled', true);
    const disabled = await device(id, 'turn_on');
    const missing = await device(v7(), 'turn_on');
    await service.flags.set('commands_disabled', false);
    expect(disabled.body).toMatchObject({ status: 'REJECTED', results: [{ code: 'COMMANDS_DISABLED' }] });
    expect(refusal(missing)).toEqual([503, 'COMMANDS_DISABLED']);
    await service.flags.set('maintenance_mode', true);
    const maintained = await device(id, 'turn_on');
    await service.flags.set('maintenance_mode', false);
    expect(refusal(maintained)).toEqual([503, 'MAINTENANCE']);
  });

  it('requires the role user', async () => {
    const id = await register();
    expect(refusal(await device(id, 'turn_on', undefined, { token: mine.tokens.viewer }))).toEqual([
      403,
      'FORBIDDEN_ROLE',
    ]);
    expect((await device(id, 'turn_on', undefined, { token: mine.tokens.user })).status).toBe(200);
    const body = { type: 'device.control', payload: { device_id: id, action: 'turn_on' } };
    expect(refusal(await service.call('POST', '/v1/intent', { body }))).toEqual([401, 'UNAUTHENTICATED']);
  });

  it('requires the scope of intents and, for every type, that of commands', async () => {
    const lamp = await register();
    const key = (...scopes: Scope[]) => ({ token: fakeCredential(mine.userId, { key: 'aaaaaaaa', scopes }) });
    expect(refusal(await device(lamp, 'turn_on', {}, key('execute:commands')))).toEqual([403, 'INSUFFICIENT_SCOPE']);
    const goal = (sent: CallOptions) => intent('goal', { text: 'make it cosy' }, sent);
    const plan = { steps: [{ id: 'a', device_id: lamp, action: 'turn_on' }] };
    const intents = key('execute:intents');
    for (const refused of [
      await device(lamp, 'turn_on', {}, intents),
      await intent('room.control', { room_id: v7(), action: 'turn_on' }, intents),
      await intent('group.control', { slug: 'all', action: 'turn_on' }, intents),
      await intent('plan.execute', { plan }, intents),
      await goal(intents),
    ]) {
      expect(refusal(refused)).toEqual([403, 'INSUFFICIENT_SCOPE']);
    }
    expect((await mine.call('GET', `/device/${lamp}/commands`)).body.commands).toEqual([]);
    const both = key('execute:intents', 'execute:commands');
    expect((await device(lamp, 'turn_on', {}, both)).body.status).toBe('SUCCESS');
    expect((await intent('plan.execute', { plan }, both)).body.status).toBe('PENDING');
    expect(refusal(await goal(both))).toEqual([503, 'SIDECAR_UNAVAILABLE']);
  });

  it('that was interrupted is completed by its repeat, with its reserved ids', async () => {
    const ids = [await inKitchen('smart_light'), await inKitchen('smart_light')];
    const sent = { headers: { 'idempotency-key': v7() } };
    const payload = { room_id: mine.roomId, action: 'turn_on' };
    const { actors } = service.services;
    const create = actors.create.bind(actors);
    let left = 1;
    const cutOff = vi
      .spyOn(actors, 'create')
      .mockImplementation((...given) => (left-- > 0 ? create(...given) : Promise.reject(new StoreUnavailable('gone'))));
    const first = await intent('room.control', payload, sent);
    cutOff.mockRestore();
    expect(refusal(first)).toEqual([503, 'STORE_UNAVAILABLE']);
    const again = await intent('room.control', payload, sent);
    expect(again.body).toMatchObject({ status: 'SUCCESS', commands_executed: 2 });
    const histories = await Promise.all(ids.map((id) => mine.call('GET', `/device/${id}/commands`)));
    expect(histories.flatMap(({ body }) => body.commands.map(({ id }: { id: string }) => id)).sort()).toEqual(
      again.body.results.map(({ command_id }: { command_id: string }) => command_id).sort(),
    );
  });

  it('with an Idempotency-Key is executed once', async () => {
    const ids = [await inKitchen('smart_light'), await inKitchen('smart_light')];
    const sent = { headers: { 'idempotency-key': v7() } };
    const payload = { room_id: mine.roomId, action: 'turn_on' };
    const first = await intent('room.control', payload, sent);
    const again = await intent('room.control', payload, sent);
    expect(again.body).toEqual(first.body);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    const histories = await Promise.all(ids.map((id) => mine.call('GET', `/device/${id}/commands`)));
    expect(histories.map(({ body }) => body.commands.length)).toEqual([1, 1]);
    const another = await intent('room.control', { ...payload, action: 'turn_off' }, sent);
    expect(refusal(another)).toEqual([422, 'IDEMPOTENCY_MISMATCH']);
  });
});
