import { expect, it, vi } from 'vitest';
import type { CallResult } from '../../../support/http-service.ts';
import { mine, service, withTwoTenants } from '../two-tenants.ts';
import { approve, as, lower, put, show, waiting, withGate } from '../weaker-manifest.ts';

withTwoTenants();
withGate();

const REASON = 'The user who requested it is no longer a member of the tenant.';
const LEFT = 'The user who requested it is no longer a member with the role';

const userId = async (role: 'admin' | 'user'): Promise<string> =>
  (await mine.call('GET', '/auth/me', undefined, as(role))).body.user.id;
const remove = async (role: 'admin' | 'user', by: 'owner' | 'admin' | 'user' = 'owner') =>
  (await mine.call('DELETE', `/tenant/members/${await userId(role)}`, undefined, as(by))).status;
const setRole = async (id: string, role: string) =>
  (await mine.call('PATCH', `/tenant/members/${id}`, { role })).status;
const lockDevice = async (): Promise<string> => (await mine.register({ device_type: 'lock' })).device_id;
const unlock = async (
  device: string,
  role: 'owner' | 'admin' | 'user',
  more: object = {},
): Promise<CallResult['body']> =>
  (await mine.call('POST', `/device/${device}/command`, { action: 'unlock', ...more }, as(role))).body;
const command = async (id: string) => (await mine.call('GET', `/commands/${id}`)).body.command;
const inbox = async (query = ''): Promise<string[]> =>
  (await mine.call('GET', `/confirmations${query}`)).body.confirmations.map(
    (one: { command_id: string }) => one.command_id,
  );
const approveCommand = (id: string) => mine.call('POST', `/confirmations/${id}/approve`);
const refused = ({ status, body }: CallResult) => [status, body.code, body.detail];

it.each(['owner', 'user'] as const)(
  'the requests of a member are withdrawn with a reason when the %s removes the member',
  async (by) => {
    const device = await lockDevice();
    const [theirs, dryRun, own] = [
      (await unlock(device, 'user')).command_id,
      (await unlock(device, 'user', { dry_run: true })).command_id,
      (await unlock(device, 'owner')).command_id,
    ];
    const other = await lower(as('owner'));
    expect(await inbox()).toEqual([own, theirs]);
    expect(await remove('user', by)).toBe(204);
    expect([await inbox(), await inbox('?dry_runs=true')]).toEqual([[own], []]);
    for (const id of [theirs, dryRun]) {
      const { status, timeline } = await command(id);
      expect([status, timeline.at(-1).reason]).toEqual(['cancelled', REASON]);
      expect((await approveCommand(id)).body.code).toBe('ILLEGAL_TRANSITION');
    }
    expect(await waiting()).toMatchObject([{ id: other.change_id }]);
  },
);

it('a change that a member requested is withdrawn when the member is removed', async () => {
  const { change_id } = await lower(as('admin'));
  expect(await waiting()).toMatchObject([{ id: change_id }]);
  expect(await remove('admin')).toBe(204);
  expect(await waiting()).toEqual([]);
  expect(await show(change_id)).toMatchObject({ status: 'refused', decided_by: mine.userId, refusal_reason: REASON });
  expect((await approve(change_id)).body.code).toBe('ILLEGAL_TRANSITION');
});

it('a command whose approval began before the removal is not withdrawn once it is dispatched', async () => {
  const { command_id } = await unlock(await lockDevice(), 'user');
  const { actors, store } = service.services;
  const send = actors.send.bind(actors);
  const [confirming, listed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  vi.spyOn(actors, 'send').mockImplementation(async (ref, event, options) => {
    if (event.type === 'confirm') {
      confirming.resolve();
      await listed.promise;
    }
    return send(ref, event, options);
  });
  const approval = approveCommand(command_id);
  await confirming.promise;
  const list = store.commands.awaitingConfirmation.bind(store.commands);
  vi.spyOn(store.commands, 'awaitingConfirmation').mockImplementationOnce(async (...filter) => {
    const page = await list(...filter);
    listed.resolve();
    await approval;
    return page;
  });
  expect(await remove('user')).toBe(204);
  expect([(await approval).status, (await command(command_id)).status]).toEqual([202, 'dispatched']);
});

it('other members change and the requests of a page end together while requests are withdrawn', async () => {
  const device = await lockDevice();
  const ids = [(await unlock(device, 'user')).command_id, (await unlock(device, 'user')).command_id];
  const admin = await userId('admin');
  const { actors } = service.services;
  const send = actors.send.bind(actors);
  const bothSent = Promise.withResolvers<void>();
  const sent = new Set<string>();
  vi.spyOn(actors, 'send').mockImplementation(async (ref, ...event) => {
    if (ids.includes(ref.id)) {
      sent.add(ref.id);
      if (sent.size === ids.length) {
        expect([await setRole(admin, 'user'), await setRole(admin, 'admin')]).toEqual([200, 200]);
        bothSent.resolve();
      }
      await bothSent.promise;
    }
    return send(ref, ...event);
  });
  expect(await remove('user')).toBe(204);
  expect(await inbox()).toEqual([]);
});

it('a request that cannot be withdrawn does not keep the others', async () => {
  const device = await lockDevice();
  const [older, newer, dryRun] = [
    (await unlock(device, 'admin')).command_id,
    (await unlock(device, 'admin')).command_id,
    (await unlock(device, 'admin', { dry_run: true })).command_id,
  ];
  await lower(as('admin'));
  const { actors, log } = service.services;
  const send = actors.send.bind(actors);
  vi.spyOn(actors, 'send').mockImplementation((ref, ...event) =>
    ref.id === newer ? Promise.reject(new Error('quarantined')) : send(ref, ...event),
  );
  const warn = vi.spyOn(log, 'warn');
  expect(await remove('admin')).toBe(204);
  expect([await inbox(), await inbox('?dry_runs=true'), await waiting()]).toEqual([[newer], [], []]);
  for (const id of [older, dryRun]) expect((await command(id)).status).toBe('cancelled');
  expect(warn.mock.calls).toMatchObject([[{ failures: 1 }, expect.stringContaining('not withdrawn')]]);
});

it('a request that could not be withdrawn is not confirmed', async () => {
  const device = await lockDevice();
  const { command_id, dry_run_token } = await unlock(device, 'user');
  const { store } = service.services;
  const fails = vi.spyOn(store.commands, 'awaitingConfirmation').mockRejectedValueOnce(new Error('no connection'));
  expect(await remove('user')).toBe(204);
  // The lists of commands and of dry runs.
  expect(fails).toHaveBeenCalledTimes(2);
  expect(await inbox()).toEqual([command_id]);
  const answers = [
    await approveCommand(command_id),
    await mine.call('POST', `/device/${device}/command/confirm`, { dry_run_token }),
  ];
  for (const answer of answers) expect(refused(answer)).toEqual([403, 'CONFIRMATION_FAILED', `${LEFT} user.`]);
  expect((await mine.call('POST', `/confirmations/${command_id}/refuse`, {})).status).toBe(200);
});

it('the request of a member is not confirmed while their role is too low for it', async () => {
  const [user, admin] = [await userId('user'), await userId('admin')];
  const device = await lockDevice();
  const { command_id } = await unlock(device, 'user');
  const { change_id } = await lower(as('admin'));
  expect([await setRole(user, 'viewer'), await setRole(admin, 'user')]).toEqual([200, 200]);
  expect(refused(await approveCommand(command_id))).toEqual([403, 'CONFIRMATION_FAILED', `${LEFT} user.`]);
  expect(refused(await approve(change_id))).toEqual([403, 'CONFIRMATION_FAILED', `${LEFT} admin.`]);
  expect([await setRole(user, 'user'), await setRole(admin, 'admin')]).toEqual([200, 200]);
  expect((await approveCommand(command_id)).status).toBe(202);
  expect((await approve(change_id)).status).toBe(200);
  expect((await put([{ action: 'open_gate' }])).status).toBe(200);
});
