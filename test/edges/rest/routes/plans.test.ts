import { v4, v7 } from 'uuid';
import { describe, expect, it } from 'vitest';
import type { CommandContext } from '../../../../src/machines/command-types.ts';
import { eventually } from '../../../support/clock.ts';
import {
  type Body,
  does,
  get,
  lastCommand,
  light,
  lock,
  mine,
  on,
  other,
  post,
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

describe('POST /plans', () => {
  it('runs the steps in order, for the requester, and returns the plan', async () => {
    const [a, b] = [await light(), await light()];
    const { status, body } = await post([on('a', a), on('b', b, { depends_on: ['a'], timeout_s: 9 })], {
      name: 'Evening',
    });
    expect(status).toBe(202);
    expect(body.plan).toEqual({
      id: expect.any(String),
      name: 'Evening',
      status: 'pending',
      on_failure: 'rollback',
      created_by: mine.userId,
      created_at: expect.stringMatching(/Z$/),
      finished_at: null,
      steps: [
        {
          ...on('a', a),
          params: {},
          depends_on: [],
          compensation: { action: 'turn_off', params: {} },
          status: 'pending',
        },
        {
          ...on('b', b),
          ...{ params: {}, depends_on: ['a'], compensation: { action: 'turn_off', params: {} }, timeout_s: 9 },
          status: 'pending',
        },
      ],
    });
    const { id } = body.plan;
    const first = await running(id, 'a');
    expect(step(await get(id), 'b').status).toBe('pending');
    await does(a, first, true);
    const second = await running(id, 'b');
    expect((await mine.call('GET', `/commands/${second}`)).body.command).toMatchObject({
      ...{ device_id: b, action: 'turn_on', timeout_s: 9, requested_by: mine.userId },
    });
    await does(b, second, true);
    const done = await until(id, ({ status: now }) => now === 'succeeded');
    expect(done).toMatchObject({
      finished_at: expect.stringMatching(/Z$/),
      steps: [{ command_id: first }, { command_id: second }],
    });
    expect((await lastCommand(a)).id).toBe(first);
  });

  it('undoes completed steps when a step fails', async () => {
    const [a, b] = [await light(), await light()];
    const id = await run([on('a', a), on('b', b, { depends_on: ['a'] }), on('c', a, { depends_on: ['b'] })]);
    await does(a, await running(id, 'a'), true);
    await mine.acknowledge(b, await running(id, 'b'), 'failed');
    await does(a, await undoing(id, 'a', a), false);
    const plan = await until(id, ({ status }) => status === 'rolled_back');
    expect(plan.steps.map(({ status }: Body) => status)).toEqual(['compensated', 'failed', 'skipped']);
    expect(step(plan, 'b').error.code).toBe('FAILED');
    expect((await mine.call('GET', `/plans/${id}`)).body.plan).toEqual(plan);
  });

  it('undoes a step with an unknown outcome, and still reports why it failed', async () => {
    const a = await light();
    const id = await run([on('a', a, { timeout_s: 5 })]);
    await running(id, 'a');
    await tick(5_000);
    await does(a, await undoing(id, 'a', a), false);
    const plan = await until(id, ({ status }) => status === 'rolled_back');
    expect(step(plan, 'a')).toMatchObject({ status: 'compensated', error: { code: 'TIMED_OUT' } });
  });

  it('keeps completed steps with `stop`', async () => {
    const [a, b] = [await light(), await light()];
    const id = await run([on('a', a), on('b', b, { depends_on: ['a'], action: 'fly' })], { on_failure: 'stop' });
    await does(a, await running(id, 'a'), true);
    const plan = await until(id, ({ status }) => status === 'failed');
    expect(plan.steps).toMatchObject([
      { status: 'succeeded' },
      { status: 'failed', command_id: expect.any(String), error: { code: 'ACTION_NOT_IN_MANIFEST' } },
    ]);
  });

  it('retries a compensation, and then reports what was not undone', async () => {
    const [a, b] = [await light(), await light()];
    const id = await run([on('a', a, { compensation: { action: 'fly' } }), on('b', b, { depends_on: ['a'] })]);
    await does(a, await running(id, 'a'), true);
    await mine.acknowledge(b, await running(id, 'b'), 'failed');
    const tries = async () =>
      (await mine.call('GET', `/device/${a}/commands`)).body.commands.filter(({ action }: Body) => action === 'fly')
        .length;
    for (const [n, wait] of [1_000, 5_000, 25_000].entries()) {
      await eventually(async () => (await tries()) === n + 1);
      await until(id, (plan) => step(plan, 'a').status === 'compensating');
      await eventually(async () => {
        const timers = await service.store.inspection.timers({ kind: 'plan', id });
        return timers.length === 1;
      });
      await tick(wait);
    }
    const plan = await until(id, ({ status }) => status === 'rollback_failed');
    expect([await tries(), step(plan, 'a')]).toMatchObject([
      4,
      { status: 'compensation_failed', error: { code: 'ACTION_NOT_IN_MANIFEST' } },
    ]);
  });

  it('creates one plan for one Idempotency-Key', async () => {
    const device = await light();
    const headers = { 'idempotency-key': v4() };
    const [one, two] = [await post([on('a', device)], {}, { headers }), await post([on('a', device)], {}, { headers })];
    expect([two.status, two.body, two.headers.get('idempotent-replayed')]).toEqual([202, one.body, 'true']);
    expect((await post([on('b', device)], {}, { headers })).status).toBe(422);
    await running(one.body.plan.id, 'a');
  });

  it('returns the verdict of each step with `dry_run`, and does nothing', async () => {
    const [a, door] = [await light(), await lock()];
    const { device_id: thing } = await mine.register({ device_type: 'thing' });
    const { status, body } = await post(
      [
        on('plain', a, { action: 'set_brightness', params: { level: 30 } }),
        { id: 'critical', device_id: door, action: 'unlock' },
        { id: 'both', device_id: door, action: 'lock', compensation: { action: 'unlock' } },
        on('wrong', a, { action: 'set_brightness', params: { level: 300 } }),
        on('unknown', a, { action: 'fly' }),
        on('bare', thing),
      ],
      { dry_run: true },
    );
    expect(status).toBe(200);
    expect(body.steps.map(({ id, verdict }: Body) => [id, verdict])).toEqual([
      ['plain', 'allowed'],
      ['critical', 'dry_run_required'],
      ['both', 'dry_run_required'],
      ['wrong', 'PARAMS_INVALID'],
      ['unknown', 'ACTION_NOT_IN_MANIFEST'],
      ['bare', 'MANIFEST_NOT_FOUND'],
    ]);
    expect(body.steps[0].preview.changes).toEqual({ brightness: { from: null, to: 30 } });
    expect((await mine.call('GET', `/device/${a}/commands`)).body.commands).toEqual([]);
  });

  it.each([
    ['no steps', [], 'steps'],
    ['the same id twice', [{ id: 'a' }, { id: 'a' }], 'steps.1.id'],
    ['a dependency that is not a step', [{ id: 'a', depends_on: ['b'] }], 'steps.0.depends_on'],
    ['a step on itself', [{ id: 'a', depends_on: ['a'] }], 'steps.0.depends_on'],
    ['a device that is not an id', [{ id: 'a', device_id: 'lamp' }], 'steps.0.device_id'],
    ['an unknown field', [{ id: 'a', colour: 'red' }], 'steps.0.colour'],
    ['parameters that are too large', [{ id: 'a', params: { text: 'x'.repeat(40_000) } }], 'steps.0.params'],
    ['a timeout that is too long', [{ id: 'a', timeout_s: 3_601 }], 'steps.0.timeout_s'],
    ['101 steps', Array.from({ length: 101 }, (_, n) => ({ id: `${n}` })), 'steps'],
    ['a control character in an id', [{ id: 'a\u0007' }], 'steps.0.id'],
  ])('refuses %s', async (_, steps, path) => {
    const { status, body } = await post(steps.map((one) => ({ device_id: v7(), action: 'turn_on', ...one })));
    expect([status, body.code, body.errors[0].path]).toEqual([400, 'VALIDATION_FAILED', path]);
  });

  it('reports the cycle', async () => {
    const steps = [
      { id: 'a', depends_on: ['c'] },
      { id: 'b', depends_on: ['a'] },
      { id: 'c', depends_on: ['b'] },
      { id: 'd', depends_on: ['c'] },
    ].map((one) => ({ device_id: v7(), action: 'turn_on', ...one }));
    expect((await post(steps)).body.errors).toEqual([
      { path: 'steps.0.depends_on', message: 'forms a cycle: a → c → b → a' },
    ]);
  });

  it('does not find devices of another tenant', async () => {
    const foreign = await light(other);
    const refused = await post([on('a', await light()), on('b', foreign)]);
    const missing = await post([on('a', v7())]);
    expect([refused.status, refused.body.code, refused.body.detail]).toEqual([404, 'NOT_FOUND', missing.body.detail]);
    expect((await post([on('b', foreign)], { dry_run: true })).status).toBe(404);
  });
});

describe('GET /plans', () => {
  it('lists them, newest first, in pages, without those of other tenants', async () => {
    const device = await light(other);
    const made: string[] = [];
    for (let n = 0; n < 3; n++) {
      made.unshift((await other.call('POST', '/plans', { steps: [on('a', device)] })).body.plan.id);
      service.clock.advance(1);
    }
    const first = (await other.call('GET', '/plans?limit=2')).body;
    const rest = (await other.call('GET', `/plans?limit=2&cursor=${first.next_cursor}`)).body;
    expect([...first.plans, ...rest.plans].map(({ id }: Body) => id)).toEqual(made);
    expect(rest.next_cursor).toBeNull();
    const foreign = await mine.call('GET', `/plans/${made[0]}`);
    const missing = await mine.call('GET', `/plans/${v7()}`);
    expect([foreign.status, foreign.body.detail]).toEqual([404, missing.body.detail]);
    expect((await mine.call('POST', `/plans/${made[0]}/cancel`)).status).toBe(404);
    const token = other.tokens.viewer;
    expect((await other.call('GET', '/plans', undefined, { token })).status).toBe(200);
    expect((await other.call('POST', '/plans', { steps: [on('a', device)] }, { token })).body.code).toBe(
      'FORBIDDEN_ROLE',
    );
  });
});

describe('POST /plans/{id}/cancel', () => {
  it('cancels unwritten commands and undoes completed steps', async () => {
    const a = await light();
    const { device_id: away } = await mine.register();
    const id = await run([on('a', a), on('b', away), on('c', a, { depends_on: ['b'] })]);
    await does(a, await running(id, 'a'), true);
    await running(id, 'b');
    await until(id, (plan) => step(plan, 'a').status === 'succeeded');
    const headers = { 'idempotency-key': v4() };
    const cancelled = await mine.call('POST', `/plans/${id}/cancel`, { reason: 'too late' }, { headers });
    expect([cancelled.status, cancelled.body.plan.status]).toEqual([202, 'rolling_back']);
    expect((await mine.call('POST', `/plans/${id}/cancel`, { reason: 'too late' }, { headers })).body).toEqual(
      cancelled.body,
    );
    expect((await mine.call('POST', `/plans/${id}/cancel`)).status).toBe(202);
    await does(a, await undoing(id, 'a', a), false);
    const plan = await until(id, ({ status }) => status === 'cancelled');
    expect(plan.steps.map(({ status }: Body) => status)).toEqual(['compensated', 'skipped', 'skipped']);
    expect((await lastCommand(away)).status).toBe('cancelled');
    const again = await mine.call('POST', `/plans/${id}/cancel`);
    expect([again.status, again.body.code]).toEqual([409, 'ILLEGAL_TRANSITION']);
  });
});

describe('POST /plans/{id}/cancel without execute:commands', () => {
  it('is refused, and the plan runs on to its end', async () => {
    const [a, b] = [await light(), await light()];
    const id = await run([on('a', a), on('b', b, { depends_on: ['a'] })]);
    await does(a, await running(id, 'a'), true);
    const second = await running(id, 'b');
    const keyWith = async (scopes: string[]): Promise<string> =>
      (await mine.call('POST', '/auth/api-keys', { name: 'x', scopes })).body.key;
    const cancel = (token: string) => service.call('POST', `/v1/plans/${id}/cancel`, { token, body: {} });
    for (const scopes of [['execute:plans'], ['execute:commands'], ['read:*', 'execute:plans', 'write:*']]) {
      const { status, body } = await cancel(await keyWith(scopes));
      expect([scopes, status, body.code]).toEqual([scopes, 403, 'INSUFFICIENT_SCOPE']);
      expect((await get(id)).status).toBe('running');
    }
    await does(b, second, true);
    expect((await until(id, ({ status }) => status === 'succeeded')).steps).toMatchObject([
      { status: 'succeeded' },
      { status: 'succeeded' },
    ]);
  });
});

describe('plan.execute', () => {
  it('creates a plan and returns its id', async () => {
    const device = await light();
    const { status, body } = await mine.call('POST', '/intent', {
      type: 'plan.execute',
      payload: { plan: { name: 'By intent', steps: [on('a', device)] } },
    });
    expect([status, body]).toEqual([
      200,
      {
        ...{ status: 'PENDING', mode: 'CLOUD_DIRECT', commands_executed: 0, commands_rejected: 0, results: [] },
        plan_id: expect.any(String),
      },
    ]);
    await does(device, await running(body.plan_id, 'a'), true);
    await until(body.plan_id, (plan) => plan.status === 'succeeded' && plan.name === 'By intent');
  });

  it('refuses what POST /plans refuses', async () => {
    const foreign = await light(other);
    const intent = (steps: object[]) =>
      mine.call('POST', '/intent', { type: 'plan.execute', payload: { plan: { steps } } });
    expect((await intent([on('a', foreign)])).status).toBe(404);
    expect((await intent([on('a', foreign), on('a', foreign)])).status).toBe(400);
  });
});

describe('a plan as an actor', () => {
  it('is listed, shown with its possible events and timers, and journaled', async () => {
    const device = await light();
    const id = await run([on('a', device)]);
    const commandId = await running(id, 'a');
    const { actors } = (await mine.call('GET', '/actors?kind=plan&state=running')).body;
    expect(actors.map((one: Body) => one.id)).toContain(id);
    const { actor } = (await mine.call('GET', `/actors/plan/${id}`)).body;
    expect(actor).toMatchObject({
      ...{ kind: 'plan', state: 'clock.still,lifecycle.open.running,mind.none', quarantined: false },
      context: { status: 'running', steps: [{ id: 'a', command_id: commandId }] },
      next_events: expect.arrayContaining(['cancel', 'command.moved']),
    });
    await does(device, commandId, true);
    await until(id, ({ status }) => status === 'succeeded');
    const { entries } = (await mine.call('GET', `/actors/plan/${id}/journal`)).body;
    expect(entries.map(({ event, data }: Body) => [event, data.status, data.step_status])).toEqual([
      ['command.moved', 'succeeded', 'succeeded'],
      ['command.moved', 'running', 'running'],
      ['create', 'pending', undefined],
    ]);
    const command = (await service.runtime.actors.read<CommandContext>({ kind: 'command', id: commandId }))?.snapshot
      .context;
    expect(command?.fixed.origin.plan).toEqual({ id, stepId: 'a', compensation: null });
    const audit = (await mine.call('GET', `/audit?subject=plan:${id}`)).body.entries;
    expect(audit).toMatchObject([{ action: 'createPlan', by: mine.userId, outcome: 'done' }]);
  });
});
