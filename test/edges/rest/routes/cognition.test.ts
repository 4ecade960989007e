import { v4 } from 'uuid';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CONTEXT_LIFE_MS } from '../../../../src/domain/cognition.ts';
import {
  type CognitionFixture,
  expectRefusal,
  startCognitionFixture,
  turnOn,
  unwrap,
} from '../../../support/cognition-fixture.ts';

let world: CognitionFixture;
beforeAll(async () => {
  world = await startCognitionFixture();
});
afterAll(() => world.service.close());

const key = async (...scopes: string[]): Promise<string> =>
  (await world.tenant.call('POST', '/auth/api-keys', { name: 'Agent', scopes })).body.key;
const intent = (payload: object, sent = {}) => world.tenant.call('POST', '/intent', { type: 'goal', payload }, sent);
const request = (path: string, body?: object, sent = {}) => world.tenant.call('POST', path, body, sent);

/** Sends a request during a temporary change, and reverts the change. */
async function during<T>(begin: () => unknown, end: () => unknown, work: () => Promise<T>): Promise<T> {
  await begin();
  try {
    return await work();
  } finally {
    await end();
  }
}
const withoutSidecar = <T>(work: () => Promise<T>): Promise<T> =>
  during(
    () => {
      world.sidecar.disconnected = true;
    },
    () => {
      world.sidecar.disconnected = false;
    },
    work,
  );
const underFlag = <T>(flag: 'cognition_disabled' | 'commands_disabled', work: () => Promise<T>): Promise<T> =>
  during(
    () => world.service.flags.set(flag, true),
    () => world.service.flags.set(flag, false),
    work,
  );

describe('a goal', () => {
  it('is a plan from its start, and is sent to the sidecar', async () => {
    const { status, body } = await intent({ text: 'Make the\nliving room warm.', home_id: world.tenant.homeId });
    expect([status, body]).toEqual([
      200,
      {
        ...{ status: 'PENDING', mode: 'CLOUD_ENHANCED', commands_executed: 0, commands_rejected: 0, results: [] },
        plan_id: expect.any(String),
      },
    ]);
    const plan = await world.plan(body.plan_id);
    expect(plan).toMatchObject({
      ...{ id: body.plan_id, name: 'Make the living room warm.', status: 'pending', steps: [], on_failure: 'rollback' },
      ...{ created_by: world.tenant.userId, finished_at: null },
      cognition: { kind: 'goal', phase: 'thinking', goal: 'Make the\nliving room warm.', home_id: world.tenant.homeId },
    });
    expect(world.sidecar.changesOf(body.plan_id)).toEqual([
      {
        ...{ type: 'opened', contextId: body.plan_id, tenantId: world.tenant.tenantId, homeId: world.tenant.homeId },
        at: expect.any(Number),
      },
    ]);
  });

  it('succeeds with its steps, when the sidecar has completed it', async () => {
    const { cognition } = world.service;
    const device = await world.addLight();
    const id = await world.submitGoal('Light, please.');
    expect(unwrap(await cognition.propose(id, turnOn('light', device)))).toEqual({ repeat: false });
    const command = await world.waitForStepCommand(id, 'light');
    expect((await world.tenant.call('GET', `/commands/${command}`)).body.command).toMatchObject({
      ...{ device_id: device, action: 'turn_on', requested_by: world.tenant.userId },
    });
    await world.executeCommand(device, command, true);
    await world.waitForPlan(id, ({ steps: [step] }) => step.status === 'succeeded');
    expect((await world.plan(id)).status).toBe('running');
    unwrap(await cognition.complete(id, { summary: 'It is light.', finalState: { on: true } }));
    expect(await world.plan(id)).toMatchObject({
      status: 'succeeded',
      cognition: { phase: 'done', summary: 'It is light.' },
    });
  });

  it('is created once with the same Idempotency-Key', async () => {
    const headers = { 'idempotency-key': v4() };
    const first = await intent({ text: 'Light, please.' }, { headers });
    const again = await intent({ text: 'Light, please.' }, { headers });
    expect(again.body).toEqual(first.body);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(world.sidecar.changesOf(first.body.plan_id)).toHaveLength(1);
  });

  it('is not returned to a token that could not have created it', async () => {
    const headers = { 'idempotency-key': v4() };
    const { service, tenant } = world;
    const sub = v4();
    const me = await service.call('GET', '/v1/auth/me', { token: await service.token(sub) });
    await service.updateUser(me.body.user.id, { tenantId: tenant.tenantId, role: 'user' });
    const strong = await service.token(sub, { scope: 'execute:intents execute:commands' });
    const weak = await service.token(sub, { scope: 'execute:intents' });
    expect((await intent({ text: 'Light, please.' }, { headers, token: strong })).status).toBe(200);
    const { status, body } = await intent({ text: 'Light, please.' }, { headers, token: weak });
    expect([status, body.code]).toEqual([403, 'INSUFFICIENT_SCOPE']);
  });

  it('is refused without a sidecar, under the flag, and to a key without the command scope', async () => {
    const text = 'Light, please.';
    const alone = await withoutSidecar(() => intent({ text }));
    expect([alone.status, alone.body.code]).toEqual([503, 'SIDECAR_UNAVAILABLE']);
    const off = await underFlag('cognition_disabled', () => intent({ text }));
    expect([off.status, off.body.code]).toEqual([503, 'COGNITION_DISABLED']);
    const weak = await intent({ text }, { token: await key('execute:intents') });
    expect([weak.status, weak.body.code]).toEqual([403, 'INSUFFICIENT_SCOPE']);
    const strong = await intent({ text }, { token: await key('execute:intents', 'execute:commands') });
    expect(strong.status).toBe(200);
  });

  it('for a home of another tenant is not found, with a sidecar or without', async () => {
    const foreign = { text: 'Light, please.', home_id: world.otherTenant.homeId };
    const nowhere = { text: 'Light, please.', home_id: 'nowhere' };
    for (const { status, body } of [
      await intent(foreign),
      await intent(nowhere),
      await withoutSidecar(() => intent(foreign)),
    ]) {
      expect([status, body.code, body.detail]).toEqual([404, 'NOT_FOUND', 'Home not found.']);
    }
  });

  it.each([
    ['blank', '  '],
    ['with invisible characters', 'Light\u{e0041}, please.'],
    ['with control characters', 'Light\u0007'],
    ['that is too long', 'x'.repeat(4_001)],
  ])('%s is refused', async (_, text) => {
    expect((await intent({ text })).body.code).toBe('VALIDATION_FAILED');
  });

  it('waits with its steps while commands are disabled', async () => {
    const device = await world.addLight();
    const id = await underFlag('commands_disabled', async () => {
      const requested = await world.submitGoal('Light, please.');
      unwrap(await world.service.cognition.propose(requested, turnOn('light', device)));
      expect((await world.plan(requested)).steps).toMatchObject([{ status: 'pending' }]);
      return requested;
    });
    await world.advanceClock(5_000);
    await world.waitForStepCommand(id, 'light');
  });

  it('is cancelled as any plan, which interrupts the sidecar', async () => {
    const id = await world.submitGoal('Light, please.');
    expect((await request(`/plans/${id}/cancel`)).body.plan.status).toBe('cancelled');
    expect(world.sidecar.changesOf(id).at(-1)).toMatchObject({ type: 'interrupted', reason: 'CANCELLED' });
    expectRefusal(await world.service.cognition.complete(id, { summary: '' }), 'CONFLICT');
  });

  it('has its requester in the journal, and messages of the sidecar as the sidecar’s', async () => {
    const id = await world.submitGoal('Light, please.');
    unwrap(await world.service.cognition.complete(id, { summary: 'There is light.' }));
    const { entries } = (await world.tenant.call('GET', `/actors/plan/${id}/journal`)).body;
    expect(entries.map(({ event, by }: { event: string; by: string }) => [event, by])).toEqual([
      ['cognition.completed', 'sidecar'],
      ['create', world.tenant.userId],
    ]);
  });
});

describe('POST /devices/{id}/command', () => {
  it('accepts a goal, or an action with its parameters, and returns the plan', async () => {
    const device = await world.addLight();
    for (const [body, notified] of [
      [
        { goal: 'Dim it.', context: 'A film.' },
        { text: 'Dim it.', action: null, note: 'A film.' },
      ],
      [
        { action: 'set_brightness', params: { level: 5 } },
        { text: null, note: null },
      ],
    ] as const) {
      const { status, body: answer } = await request(`/devices/${device}/command`, body);
      expect([status, answer]).toEqual([
        202,
        { status: 'ACCEPTED', plan_id: expect.any(String), device_id: device, mode: 'CLOUD_ENHANCED' },
      ]);
      const context = await world.service.cognition.context(answer.plan_id);
      expect(context).toMatchObject({ kind: 'device', deviceId: device, homeId: world.tenant.homeId, ...notified });
      expect((await world.service.cognition.worldOf(context as NonNullable<typeof context>)).devices).toHaveLength(1);
    }
  });

  it('is refused with the value of a writeOnly parameter, which a sidecar must not see', async () => {
    const { device_id: keypad } = await world.tenant.register({ device_type: 'keypad' });
    const pin = { type: 'string', writeOnly: true };
    const paramSchema = { type: 'object', properties: { pin, slot: { type: 'integer' } } };
    const manifest = { capabilities: [{ action: 'set_code', paramSchema }] };
    expect((await request(`/devices/${keypad}/manifest`, manifest)).status).toBe(201);
    const path = `/devices/${keypad}/command`;
    const refused = await request(path, { action: 'set_code', params: { pin: '7391', slot: 1 } });
    expect([refused.status, refused.body.code]).toEqual([400, 'PARAMS_INVALID']);
    expect((await request(path, { action: 'set_code', params: { slot: 1 } })).status).toBe(202);
  });

  it('is refused without a sidecar, and below the role admin', async () => {
    const path = `/devices/${await world.addLight()}/command`;
    const alone = await withoutSidecar(() => request(path, { goal: 'Dim it.' }));
    expect([alone.status, alone.body.code]).toEqual([503, 'SIDECAR_UNAVAILABLE']);
    const user = await request(path, { goal: 'Dim it.' }, { token: world.tenant.tokens.user });
    expect([user.status, user.body.code]).toEqual([403, 'FORBIDDEN_ROLE']);
    const off = await underFlag('cognition_disabled', () => request(path, { goal: 'Dim it.' }));
    expect([off.status, off.body.code]).toEqual([503, 'COGNITION_DISABLED']);
  });

  it.each([
    [{}],
    [{ goal: 'Dim it.', action: 'turn_off' }],
    [{ goal: 'Dim it.', params: {} }],
    [{ params: { level: 5 } }],
    [{ goal: '' }],
  ])('refuses %j', async (body) => {
    const { status, body: answer } = await request(`/devices/${await world.addLight()}/command`, body);
    expect([status, answer.code]).toEqual([400, 'VALIDATION_FAILED']);
  });

  it('does not find devices of another tenant, with a sidecar or without', async () => {
    const path = `/devices/${await world.addLight(world.otherTenant)}/command`;
    for (const { status } of [
      await request(path, { goal: 'Dim it.' }),
      await withoutSidecar(() => request(path, { goal: 'Dim it.' })),
    ]) {
      expect(status).toBe(404);
    }
  });
});

describe('an observation', () => {
  const node = (device: string) => turnOn('light', device, { timeout_s: 9 });
  /** A proposal with the sidecar's response. */
  async function spoken(): Promise<{ id: string; device: string }> {
    const device = await world.addLight();
    const id = await world.observe(device, { context: 'After a shower' });
    unwrap(await world.service.cognition.propose(id, node(device)));
    unwrap(await world.service.cognition.complete(id, { summary: 'It is dark.' }));
    return { id, device };
  }

  it('leads to a proposal, whose steps are visible when the sidecar has sent them', async () => {
    const device = await world.addLight();
    const id = await world.observe(device, { context: 'After a shower' });
    const before = { id, status: 'pending', reason: null, steps: [], device_id: device, data: { humidity: 81 } };
    expect(await world.proposal(id)).toMatchObject({ ...before, context: 'After a shower' });
    expect(world.sidecar.changesOf(id)).toMatchObject([{ type: 'opened', homeId: world.tenant.homeId }]);
    const { cognition } = world.service;
    unwrap(await cognition.propose(id, node(device)));
    expect(await world.proposal(id)).toMatchObject(before);
    unwrap(await cognition.complete(id, { summary: 'It is dark.' }));
    expect(await world.proposal(id)).toEqual({
      ...{ id, status: 'pending', reason: 'It is dark.', device_id: device, data: { humidity: 81 } },
      steps: [{ ...node(device), params: {}, depends_on: [], compensation: { action: 'turn_off', params: {} } }],
      ...{ context: 'After a shower', asked_by: world.tenant.userId },
      ...{ created_at: expect.stringMatching(/Z$/), expires_at: expect.stringMatching(/Z$/) },
    });
    const { proposals } = (await world.tenant.call('GET', '/cognition/proposals')).body;
    expect(proposals[0].id).toBe(id);
  });

  it('is refused without a sidecar, under the flag, and with invalid measurements', async () => {
    const body = { device_id: await world.addLight(), data: { humidity: 81 } };
    const alone = await withoutSidecar(() => request('/cognition/observation', body));
    expect([alone.status, alone.body.code]).toEqual([503, 'SIDECAR_UNAVAILABLE']);
    const off = await underFlag('cognition_disabled', () => request('/cognition/observation', body));
    expect([off.status, off.body.code]).toEqual([503, 'COGNITION_DISABLED']);
    for (const data of [null, 81, [81], { text: 'x'.repeat(16 * 1024) }]) {
      expect((await request('/cognition/observation', { ...body, data })).body.code).toBe('VALIDATION_FAILED');
    }
  });

  it('of an unknown device is not found, and one without extra fields is accepted', async () => {
    const body = { device_id: await world.addLight(), data: { humidity: 81 }, context: '' };
    const none = await request('/cognition/observation', { ...body, device_id: 'nowhere' });
    expect([none.status, none.body.code]).toEqual([404, 'NOT_FOUND']);
    const { status, body: taken } = await request('/cognition/observation', body);
    expect([status, (await world.proposal(taken.proposal_id)).context]).toEqual([202, undefined]);
    const requested = await request('/devices/nowhere/command', { goal: 'Dim it.', context: '' });
    expect([requested.status, requested.body.code]).toEqual([404, 'NOT_FOUND']);
    const dim = await request(`/devices/${body.device_id}/command`, { goal: 'Dim it.', context: '' });
    expect(dim.status).toBe(202);
  });

  it('runs nothing before a user accepts it, and then with that user’s authority', async () => {
    const { id, device } = await spoken();
    const { commands } = (await world.tenant.call('GET', `/device/${device}/commands`)).body;
    expect(commands).toEqual([]);
    const { status, body } = await request(
      `/cognition/proposals/${id}/accept`,
      {},
      { token: world.tenant.tokens.user },
    );
    const me = (await world.tenant.call('GET', '/auth/me', undefined, { token: world.tenant.tokens.user })).body.user
      .id;
    expect(status).toBe(202);
    expect(body.plan).toMatchObject({
      ...{ status: 'pending', created_by: me, on_failure: 'rollback', steps: [{ id: 'light', timeout_s: 9 }] },
      cognition: { kind: 'observation', phase: 'done', proposal_id: id },
    });
    expect(await world.proposal(id)).toMatchObject({ status: 'accepted', plan_id: body.plan.id });
    const command = await world.waitForStepCommand(body.plan.id, 'light');
    await world.executeCommand(device, command, true);
    await world.waitForPlan(body.plan.id, (plan) => plan.status === 'succeeded');
    const notified = world.sidecar.changesOf(id).map((one) => (one.type === 'node' ? one.to : one.type));
    expect(notified).toEqual(['opened', 'pending', 'running', 'outcome', 'succeeded']);
  });

  it('accepted by two users becomes one plan', async () => {
    const { id } = await spoken();
    const path = `/cognition/proposals/${id}/accept`;
    const answers = await Promise.all(Array.from({ length: 6 }, () => request(path)));
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409, 409, 409, 409, 409]);
    const { plans } = (await world.tenant.call('GET', '/plans?limit=200')).body;
    const mine = plans.filter((plan: { cognition?: { proposal_id?: string } }) => plan.cognition?.proposal_id === id);
    expect(mine).toHaveLength(1);
  });

  it('is accepted once with the same Idempotency-Key', async () => {
    const { id } = await spoken();
    const headers = { 'idempotency-key': v4() };
    const [first, again] = [
      await request(`/cognition/proposals/${id}/accept`, {}, { headers }),
      await request(`/cognition/proposals/${id}/accept`, {}, { headers }),
    ];
    expect([again.status, again.body]).toEqual([202, first.body]);
  });

  it('cannot be accepted before the sidecar has finished, nor without steps', async () => {
    const id = await world.observe(await world.addLight());
    const early = await request(`/cognition/proposals/${id}/accept`);
    expect([early.status, early.body.code]).toEqual([409, 'CONFLICT']);
    unwrap(await world.service.cognition.complete(id, { summary: 'All is well.' }));
    expect(await world.proposal(id)).toMatchObject({ status: 'refused', reason: 'All is well.', steps: [] });
    const empty = await request(`/cognition/proposals/${id}/accept`);
    expect([empty.status, empty.body.code]).toEqual([409, 'CONFLICT']);
  });

  it('that failed in the sidecar shows the reason, and cannot be accepted', async () => {
    const device = await world.addLight();
    const id = await world.observe(device);
    unwrap(await world.service.cognition.propose(id, node(device)));
    unwrap(await world.service.cognition.fail(id, { code: 'NO_MODEL', detail: 'The model does not answer.' }));
    expect(await world.proposal(id)).toMatchObject({
      status: 'refused',
      reason: 'The model does not answer.',
      steps: [],
    });
    expect((await request(`/cognition/proposals/${id}/accept`)).status).toBe(409);
  });

  it('is accepted only by a user who may run plans and commands', async () => {
    const { id } = await spoken();
    const path = `/cognition/proposals/${id}/accept`;
    for (const scopes of [['execute:plans'], ['execute:commands']]) {
      const { status, body } = await request(path, {}, { token: await key(...scopes) });
      expect([status, body.code]).toEqual([403, 'INSUFFICIENT_SCOPE']);
    }
    expect((await request(path, {}, { token: world.tenant.tokens.viewer })).body.code).toBe('FORBIDDEN_ROLE');
    expect((await request(path, {}, { token: await key('execute:plans', 'execute:commands') })).status).toBe(202);
  });

  it('that is refused stays so, and the sidecar is notified', async () => {
    const { id } = await spoken();
    const path = `/cognition/proposals/${id}/refuse`;
    const { status, body } = await request(path, { reason: 'The window is open.' });
    expect([status, body.proposal]).toMatchObject([200, { id, status: 'refused', reason: 'The window is open.' }]);
    expect((await request(path)).body.proposal).toMatchObject({ status: 'refused', reason: 'The window is open.' });
    expect((await request(`/cognition/proposals/${id}/accept`)).body.code).toBe('CONFLICT');
    expect(world.sidecar.changesOf(id).at(-1)).toMatchObject({ type: 'node', from: 'pending', to: 'skipped' });
    const early = await world.observe(await world.addLight());
    await request(`/cognition/proposals/${early}/refuse`);
    expect(world.sidecar.changesOf(early).at(-1)).toMatchObject({ type: 'interrupted', reason: 'CANCELLED' });
    expectRefusal(await world.service.cognition.complete(early, { summary: '' }), 'CONFLICT');
  });

  it('expires a day later', async () => {
    const { id } = await spoken();
    const waiting = await world.observe(await world.addLight());
    const token = await key('all');
    world.service.clock.advance(CONTEXT_LIFE_MS);
    const { body } = await world.tenant.call('GET', `/cognition/proposals/${id}`, undefined, { token });
    expect(body.proposal).toMatchObject({ status: 'expired', reason: 'It is dark.' });
    for (const verb of ['accept', 'refuse']) {
      const late = await request(`/cognition/proposals/${id}/${verb}`, {}, { token });
      expect([late.status, late.body.code]).toEqual([409, 'CONFLICT']);
    }
    expectRefusal(await world.service.cognition.complete(waiting, { summary: '' }), 'CONFLICT');
    expect(await world.service.cognition.context(waiting)).toBeNull();
  });
});
