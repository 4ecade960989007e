import { v7 } from 'uuid';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../support/clock.ts';
import {
  type Body,
  does,
  get,
  light,
  lock,
  mine,
  none,
  on,
  run,
  running,
  service,
  step,
  tick,
  undoing,
  until,
  withPlanService,
} from './plan-requests.ts';

withPlanService();

describe('a critical step', () => {
  it('waits in the inbox with its plan, while independent steps continue', async () => {
    const [a, door] = [await light(), await lock()];
    const id = await run([{ id: 'door', device_id: door, action: 'unlock' }, on('a', a)]);
    await does(a, await running(id, 'a'), true);
    const waiting = await until(id, ({ status }) => status === 'awaiting_confirmation');
    await until(id, (plan) => step(plan, 'a').status === 'succeeded');
    const { command_id } = step(waiting, 'door');
    const { confirmations } = (await mine.call('GET', '/confirmations')).body;
    expect(confirmations.find((one: Body) => one.command_id === command_id)).toMatchObject({
      plan_id: id,
      action: 'unlock',
    });
    expect((await mine.call('POST', `/confirmations/${command_id}/approve`)).status).toBe(202);
    await mine.report(door, { locked: false });
    await mine.acknowledge(door, command_id, 'succeeded');
    await until(id, ({ status }) => status === 'succeeded');
  });

  it('fails when it is refused', async () => {
    const door = await lock();
    const id = await run([{ id: 'door', device_id: door, action: 'unlock' }]);
    const waiting = await until(id, ({ status }) => status === 'awaiting_confirmation');
    await mine.call('POST', `/confirmations/${step(waiting, 'door').command_id}/refuse`, { reason: 'no' });
    expect(step(await until(id, ({ status }) => status === 'failed'), 'door').error.code).toBe('CANCELLED');
  });

  it('is approved together with its critical compensation, which needs no second confirmation', async () => {
    const [a, door] = [await light(), await lock()];
    const id = await run([
      { id: 'door', device_id: door, action: 'lock', compensation: { action: 'unlock' } },
      on('a', a, { depends_on: ['door'] }),
    ]);
    const waiting = await until(id, ({ status }) => status === 'awaiting_confirmation');
    const { command_id } = step(waiting, 'door');
    const { confirmations } = (await mine.call('GET', '/confirmations')).body;
    expect(confirmations.find((one: Body) => one.command_id === command_id)).toMatchObject({
      ...{ plan_id: id, action: 'lock', compensation: { action: 'unlock', params: {} } },
    });
    const token = mine.tokens.user;
    await mine.call('POST', `/confirmations/${command_id}/approve`, undefined, { token });
    await mine.report(door, { locked: true });
    await mine.acknowledge(door, command_id, 'succeeded');
    await mine.acknowledge(a, await running(id, 'a'), 'failed');
    const undo = await undoing(id, 'door', door);
    const [first, second] = await Promise.all(
      [command_id, undo].map(async (one) => (await mine.call('GET', `/commands/${one}`)).body.command),
    );
    expect([second.action, second.confirmed_by, second.confirmed_by === mine.userId]).toEqual([
      ...['unlock', first.confirmed_by, false],
    ]);
    await mine.report(door, { locked: false });
    await mine.acknowledge(door, undo, 'succeeded');
    await until(id, ({ status }) => status === 'rolled_back');
  });

  it('cannot be forged by a request', async () => {
    const door = await lock();
    for (const forged of [{ origin: { plan: {} } }, { approval: {} }, { plan_id: v7() }]) {
      const { status } = await mine.call('POST', `/device/${door}/command`, { action: 'unlock', ...forged });
      expect(status).toBe(400);
    }
  });
});

describe('the authority of a plan', () => {
  it('is its creator’s at each step: after the loss of a role it fails with that code', async () => {
    const [a, b] = [await light(), await light()];
    const token = await service.member(mine.tenantId, 'user');
    const id = await run([on('a', a), on('b', b, { depends_on: ['a'] })], {}, { token });
    const first = await running(id, 'a');
    const { created_by } = await get(id);
    await service.updateUser(created_by, { role: 'viewer' });
    await does(a, first, true);
    const plan = await until(id, (now) => step(now, 'b').status === 'failed');
    expect(step(plan, 'b').error.code).toBe('FORBIDDEN_ROLE');
    expect(step(plan, 'b').command_id).toBeUndefined();
  });

  it('of a key that was revoked ends', async () => {
    const [a, b] = [await light(), await light()];
    const scopes = ['execute:plans', 'execute:commands'];
    const key = (await mine.call('POST', '/auth/api-keys', { name: 'agent', scopes })).body;
    service.services.flags = () => ({ ...none, commands_disabled: true });
    const id = await run([on('a', a), on('b', b, { depends_on: ['a'] })], {}, { token: key.key });
    // The step must be deferred before the key is revoked; otherwise no timer exists for the clock to fire.
    await eventually(async () => (await service.store.inspection.timers({ kind: 'plan', id })).length === 1);
    await mine.call('POST', '/auth/api-keys/revoke', { prefix: key.prefix });
    service.services.flags = () => none;
    await tick(5_000);
    const plan = await until(id, ({ status }) => status === 'failed');
    expect(step(plan, 'a').error.code).toBe('UNAUTHENTICATED');
  });

  it('is refused to a credential without the command scope, over either route', async () => {
    const device = await light();
    const sub = v7();
    const me = await service.call('GET', '/v1/auth/me', { token: await service.token(sub) });
    await service.updateUser(me.body.user.id, { tenantId: mine.tenantId, role: 'user' });
    const token = await service.token(sub, { scope: 'execute:plans execute:intents' });
    const scopes = ['execute:plans', 'read:plans', 'execute:intents'];
    const { key } = (await mine.call('POST', '/auth/api-keys', { name: 'agent', scopes })).body;
    const plan = { steps: [on('a', device)] };
    for (const credential of [token, key]) {
      for (const [path, body] of [
        ['/plans', plan],
        ['/plans', { ...plan, dry_run: true }],
        ['/intent', { type: 'plan.execute', payload: { plan } }],
      ] as const) {
        const answer = await mine.call('POST', path, body, { token: credential });
        expect([answer.status, answer.body.code]).toEqual([403, 'INSUFFICIENT_SCOPE']);
      }
    }
    expect((await mine.call('GET', `/device/${device}/commands`)).body.commands).toEqual([]);
  });
});
