import { describe, expect, it } from 'vitest';
import { eventually } from '../../../support/clock.ts';
import {
  type Body,
  does,
  get,
  light,
  mine,
  none,
  on,
  run,
  running,
  service,
  step,
  tick,
  until,
  withPlanService,
} from './plan-requests.ts';

withPlanService();

describe('a flag', () => {
  it.each(['commands_disabled', 'maintenance_mode'] as const)(
    '%s delays the next step without failing it',
    async (flag) => {
      const [a, b] = [await light(), await light()];
      const id = await run([on('a', a), on('b', b, { depends_on: ['a'] })]);
      const first = await running(id, 'a');
      await service.flags.set(flag, true);
      service.services.flags = () => service.flags.current();
      await does(a, first, true);
      await until(id, (plan) => step(plan, 'a').status === 'succeeded');
      for (let n = 0; n < 3; n++) {
        await eventually(async () => (await service.store.inspection.timers({ kind: 'plan', id })).length === 1);
        await tick(5_000);
      }
      expect([(await get(id)).status, step(await get(id), 'b').status]).toEqual(['running', 'pending']);
      await service.flags.set(flag, false);
      await eventually(async () => (await service.store.inspection.timers({ kind: 'plan', id })).length === 1);
      await tick(5_000);
      await does(b, await running(id, 'b'), true);
      await until(id, ({ status }) => status === 'succeeded');
    },
  );
});

describe('a suspension', () => {
  const turn = async (type: 'suspend' | 'resume') => {
    const reply = await service.runtime.actors.send(
      { kind: 'tenant', id: mine.tenantId },
      { type, at: service.clock.now() },
    );
    await reply.messagesDelivered;
  };
  const stored = async (id: string) =>
    (await service.runtime.actors.read({ kind: 'plan', id }))?.snapshot.context.live as Body;

  it('pauses a plan without running steps, and ends one that lost a step with the policy stop', async () => {
    const [a, b, c] = [await light(), await light(), await light()];
    service.services.flags = () => ({ ...none, commands_disabled: true });
    const waiting = await run([on('c', c)]);
    service.services.flags = () => none;
    const id = await run([on('a', a), on('b', b), on('c', a, { depends_on: ['b'] })]);
    await does(a, await running(id, 'a'), true);
    await running(id, 'b');
    await until(id, (plan) => step(plan, 'a').status === 'succeeded');
    await turn('suspend');
    await tick(30_000);
    await eventually(async () => (await stored(id)).status === 'failed');
    expect((await stored(waiting)).steps[0].status).toBe('pending');
    await turn('resume');
    const plan = await get(id);
    expect(plan.steps.map(({ status }: Body) => status)).toEqual(['succeeded', 'failed', 'skipped']);
    await does(c, await running(waiting, 'c'), true);
    await until(waiting, ({ status }) => status === 'succeeded');
  });
});
