import { v7 } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Actors, EventFailed, Overloaded } from '../../../src/actors/contract.ts';
import { SYSTEM } from '../../../src/domain/values.ts';
import type { CommandEvent } from '../../../src/machines/command-types.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import type { HttpService } from '../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let actors: Actors;
let ids: string[];

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  actors = service.services.actors;
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
  ids = await Promise.all([1, 2, 3, 4].map(async () => (await mine.register()).device_id));
});
afterAll(() => service.close());

/** Creations of commands for these devices fail until `mockRestore` or the end of the test. */
function breakFor(deviceIds: readonly string[], fault: Error) {
  const create = actors.create.bind(actors);
  return vi.spyOn(actors, 'create').mockImplementation(async (ref, event, options) => {
    const { command } = event as Extract<CommandEvent, { type: 'request' }>;
    if (deviceIds.includes(command.deviceId)) throw fault;
    return create(ref, event, options);
  });
}

const turnOn = (headers: Record<string, string> = {}) =>
  mine.call('POST', '/devices/command', { device_ids: ids, action: 'turn_on' }, { headers });
const made = async (id: string): Promise<string[]> => {
  const { commands } = (await mine.call('GET', `/device/${id}/commands`)).body;
  return commands.map((command: { id: string }) => command.id);
};

describe('an interrupted batch', () => {
  it('is completed by its repeat, each command once and with its reserved id', async () => {
    const headers = { 'idempotency-key': v7() };
    const broken = breakFor(ids.slice(2), new StoreUnavailable('gone'));
    const first = await turnOn(headers);
    expect([first.status, first.body.code]).toEqual([503, 'STORE_UNAVAILABLE']);
    const before = await Promise.all(ids.map(made));
    expect(before.map((commands) => commands.length)).toEqual([1, 1, 0, 0]);

    broken.mockRestore();
    const { status, body, headers: notified } = await turnOn(headers);
    expect([status, notified.get('idempotent-replayed')]).toEqual([200, null]);
    expect(body.results.map((entry: { success: boolean }) => entry.success)).toEqual([true, true, true, true]);
    const after = await Promise.all(ids.map(made));
    expect(after).toEqual(body.results.map((entry: { command_id: string }) => [entry.command_id]));
    expect(after.slice(0, 2)).toEqual(before.slice(0, 2));

    const again = await turnOn(headers);
    expect([again.body, again.headers.get('idempotent-replayed')]).toEqual([body, 'true']);
  });

  it('returns the tokens of existing dry runs to the repeat', async () => {
    const locks = await Promise.all([1, 2].map(async () => (await mine.register({ device_type: 'lock' })).device_id));
    ids = locks;
    const headers = { 'idempotency-key': v7() };
    const unlock = () => mine.call('POST', '/devices/command', { device_ids: ids, action: 'unlock' }, { headers });
    const broken = breakFor(locks.slice(1), new Overloaded('full'));
    expect((await unlock()).body.code).toBe('OVERLOADED');
    broken.mockRestore();
    const { results } = (await unlock()).body;
    for (const { device_id, command_id, dry_run_token } of results) {
      const confirmed = await mine.call('POST', `/device/${device_id}/command/confirm`, { dry_run_token });
      expect([confirmed.status, confirmed.body.command_id]).toEqual([202, command_id]);
    }
  });

  it('continues with the devices that were in the room at the start', async () => {
    const inRoom = (await mine.register({ room_id: mine.roomId })).device_id;
    const headers = { 'idempotency-key': v7() };
    const command = () => mine.call('POST', `/rooms/${mine.roomId}/command`, { action: 'turn_on' }, { headers });
    const broken = breakFor([inRoom], new StoreUnavailable('gone'));
    expect((await command()).status).toBe(503);
    broken.mockRestore();
    await mine.call('PATCH', `/devices/${inRoom}`, { room_id: null });
    await mine.register({ room_id: mine.roomId });
    expect((await command()).body.results).toMatchObject([{ device_id: inRoom, success: true }]);
  });

  it('reports a dry run that was cancelled before the repeat', async () => {
    const lock = (await mine.register({ device_type: 'lock' })).device_id;
    ids = [lock, ids[0] as string];
    const headers = { 'idempotency-key': v7() };
    const reboot = () => mine.call('POST', '/devices/command', { device_ids: ids, action: 'reboot' }, { headers });
    const broken = breakFor(ids.slice(1), new StoreUnavailable('gone'));
    await reboot();
    const [waiting] = await made(lock);
    await mine.call('POST', `/commands/${waiting}/cancel`);
    broken.mockRestore();
    expect((await reboot()).body.results).toMatchObject([
      { command_id: waiting, success: false, code: 'CONFIRMATION_FAILED', error: 'The command is cancelled already.' },
      { success: false, code: 'DRY_RUN_REQUIRED' },
    ]);
  });
});

describe('a fault in a batch', () => {
  it('fails only its target if the request cannot be repeated', async () => {
    breakFor(ids.slice(3), new StoreUnavailable('gone'));
    const { status, body } = await turnOn();
    expect(status).toBe(200);
    expect(body.results.slice(0, 3)).toMatchObject([{ success: true }, { success: true }, { success: true }]);
    expect(body.results[3]).toEqual({
      device_id: ids[3],
      success: false,
      code: 'STORE_UNAVAILABLE',
      error: expect.any(String),
    });
  });

  it('refuses the whole request if no target succeeded', async () => {
    breakFor(ids, new Overloaded('full'));
    const answer = await turnOn();
    expect([answer.status, answer.body.code]).toEqual([503, 'OVERLOADED']);
    expect(answer.headers.get('retry-after')).toBeTruthy();
  });

  it('is a gateway error if one device was commanded', async () => {
    breakFor(ids.slice(0, 1), new EventFailed('secret of the house'));
    const answer = await mine.call('POST', `/device/${ids[0]}/command`, { action: 'turn_on' });
    expect([answer.status, answer.body.code]).toEqual([500, 'GATEWAY_ERROR']);
    expect(JSON.stringify(answer.body)).not.toContain('secret of the house');
  });

  it('is logged without being described to the caller when it is a bug', async () => {
    breakFor(ids.slice(0, 1), new EventFailed('secret of the house'));
    const { body } = await turnOn({ 'idempotency-key': v7() });
    expect(body.results[0]).toMatchObject({ device_id: ids[0], success: false, code: 'GATEWAY_ERROR' });
    expect(JSON.stringify(body)).not.toContain('secret of the house');
    expect(service.errors.at(-1)).toMatchObject({ err: expect.any(EventFailed), command_id: expect.any(String) });
  });
});

it.each([
  ['suspended', 'TENANT_SUSPENDED', () => ({ ref: { kind: 'tenant', id: mine.tenantId } as const, type: 'suspend' })],
  ['revoked', 'DEVICE_REVOKED', () => ({ ref: { kind: 'device', id: ids[0] as string } as const, type: 'revoke' })],
])('a user who was %s between the pages of a batch commands no further devices', async (_, code, who) => {
  const { manifests } = service.services;
  const { ref, type } = who();
  const load = manifests.load.bind(manifests);
  vi.spyOn(manifests, 'load').mockImplementation(async (devices) => {
    await actors.send(ref, { type, at: service.clock.now(), by: SYSTEM });
    return load(devices);
  });
  const { body } = await turnOn();
  expect(body.results[0]).toMatchObject({ success: false, code, status: 'rejected' });
});
