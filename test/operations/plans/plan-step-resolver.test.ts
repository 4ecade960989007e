import { v7 } from 'uuid';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Actors,
  type AddressedEvent,
  type BatchView,
  type Committed,
  Quarantined,
} from '../../../src/actors/contract.ts';
import type { ContextParts } from '../../../src/machines/definition.ts';
import type { ActorRef } from '../../../src/machines/outputs.ts';
import type { PlanContext, PlanFixed, PlanLive, PlanStep } from '../../../src/machines/plan-types.ts';
import type { Services } from '../../../src/operations/operation.ts';
import { planStepResolver, planStepSyncResolver } from '../../../src/operations/plans/plan-step-resolver.ts';
import type { HttpService } from '../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

it('keeps an output of a quarantined plan until it is released', async () => {
  const actors = {
    read: async () => ({ snapshot: { context: { live: { steps: [] } } } }),
    inspect: () => ({ live: true, mailbox: 0, quarantine: 'the stored state does not match the machine' }),
  };
  const resolve = planStepResolver({ actors } as unknown as Services);
  const requested = resolve({ type: 'plan.ask', planId: 'p', stepId: 'a', commandId: 'c' });
  await expect(requested).rejects.toThrow(new Quarantined('the stored state does not match the machine'));
});

describe('an output of a plan', () => {
  let service: HttpService;
  let mine: TestTenant;
  let other: TestTenant;
  beforeAll(async () => {
    service = await startHttpServiceOnDatabase();
    mine = await makeTestTenant(service);
    other = await makeTestTenant(service);
  });
  afterAll(() => service.close());

  const stepOn = (deviceId: string, more: Partial<PlanStep> = {}): PlanStep => ({
    ...{ id: 'a', deviceId, action: 'turn_on', params: {}, dependsOn: [], compensation: null, timeoutS: 9 },
    ...{ status: 'pending', commandId: v7(), ask: 'asked', parked: false, acted: false, finished: null },
    ...{ undo: null, error: null, undoError: null },
    ...more,
  });
  const planWith = (step: PlanStep, fixed: Partial<PlanFixed> = {}, live: Partial<PlanLive> = {}): PlanContext => ({
    fixed: {
      ...{ id: v7(), tenantId: mine.tenantId, name: null, onFailure: 'rollback', scopes: null, requestId: v7() },
      ...{ createdBy: { kind: 'user', id: mine.userId }, createdAt: 1 },
      ...fixed,
    },
    live: {
      ...{ finishedAt: null, status: 'pending', steps: [step], ending: null, finished: 0, wakeAt: null },
      ...{ cognition: null, ...live },
    },
  });
  const light = async (tenancy = mine) => (await tenancy.register()).device_id;

  /** The results of the synchronous and the asynchronous resolver, without values that are random in each call. */
  async function bothWays(context: PlanContext): Promise<unknown[]> {
    const { actors } = service.runtime;
    const plan = {
      ref: { kind: 'plan', id: context.fixed.id },
      version: 1,
      snapshot: { value: '', context },
      since: 1,
    };
    const isPlan = (ref: ActorRef): boolean => ref.kind === 'plan';
    const read: Actors['read'] = <C extends ContextParts>(ref: ActorRef) =>
      isPlan(ref) ? Promise.resolve(plan as unknown as Committed<C>) : actors.read<C>(ref);
    const turn: BatchView = {
      peek: <C extends ContextParts>(ref: ActorRef) =>
        isPlan(ref) ? (plan as unknown as Committed<C>) : actors.peek<C>(ref),
    };
    const overStore = new Proxy(actors, {
      get: (target, name) => (name === 'read' ? read : Reflect.get(target, name).bind(target)),
    });
    const services: Services = { ...service.services, actors: overStore };
    const [step] = context.live.steps as [PlanStep];
    const { commandId } = step.undo ?? step;
    const output = {
      type: 'plan.ask',
      planId: context.fixed.id,
      stepId: step.id,
      commandId: commandId as string,
    } as const;
    const found = await planStepResolver(services)(output);
    return [planStepSyncResolver(service.services)(output, turn), found].map((one) => one && alike(one));
  }
  const alike = (posted: AddressedEvent): unknown =>
    JSON.parse(JSON.stringify(posted), (key, value) => (['messageId', 'tokenHash', 'at'].includes(key) ? '' : value));
  const word = (type: string, more: object) => ({ event: { type, ...more } });

  it('resolves to the command of the step if its device exists, the same from memory and from the store', async () => {
    const id = await light();
    for (const session of [false, true]) {
      if (session) await mine.connect(id);
      const context = planWith(stepOn(id));
      const [atHand, found] = await bothWays(context);
      expect(atHand).toEqual(found);
      expect(found).toMatchObject({
        to: { kind: 'command', id: context.live.steps[0]?.commandId },
        create: true,
        event: { type: 'request', command: { deviceId: id, timeoutS: 9, origin: { plan: { id: context.fixed.id } } } },
        fallback: word('step.refused', { error: { code: 'GATEWAY_ERROR' } }),
      });
      expect((found as { event: { session: unknown } }).event.session === null).toBe(!session);
    }
  });

  it('is left to the gateway to refuse if the device is revoked', async () => {
    const id = await light();
    await mine.call('POST', `/device/${id}/revoke`, {});
    const [atHand, found] = await bothWays(planWith(stepOn(id)));
    expect(atHand).toEqual(found);
    expect(found).toMatchObject({ event: { facts: { device: { revoked: true } } } });
  });

  it('is refused if the device belongs to another tenant, the plan has ended, or its creator lost the permission', async () => {
    const [own, theirs] = [await light(), await light(other)];
    const { body } = await mine.call('POST', '/auth/api-keys', { name: 'Plans', scopes: ['execute:commands'] });
    const key = body.prefix as string;
    const byKey = planWith(stepOn(own), { createdBy: { kind: 'user', id: mine.userId, key } });
    await service.services.apiKeys.isValid(key);
    expect((await bothWays(byKey)).map((one) => (one as AddressedEvent).event.type)).toEqual(['request', 'request']);
    await mine.call('POST', '/auth/api-keys/revoke', { prefix: key });
    await service.services.apiKeys.isValid(key);

    const outsider = { kind: 'user', id: other.userId } as const;
    const cases: [PlanContext, string][] = [
      [planWith(stepOn(theirs)), 'NOT_FOUND'],
      [planWith(stepOn(own), {}, { ending: 'cancel' }), 'CONFLICT'],
      [planWith(stepOn(own), { scopes: ['execute:plans'] }), 'INSUFFICIENT_SCOPE'],
      [planWith(stepOn(own), { createdBy: outsider }), 'FORBIDDEN_ROLE'],
      [byKey, 'UNAUTHENTICATED'],
    ];
    for (const [context, code] of cases) {
      const [atHand, found] = await bothWays(context);
      expect(atHand).toEqual(found);
      expect(found).toMatchObject({
        to: { kind: 'plan', id: context.fixed.id },
        ...word('step.refused', { error: { code } }),
      });
    }
  });

  it('is deferred by a flag, and resolves to nothing when it is outdated', async () => {
    const id = await light();
    await service.services.setFlag('commands_disabled', true);
    const [atHand, found] = await bothWays(planWith(stepOn(id)));
    await service.services.setFlag('commands_disabled', false);
    expect(atHand).toEqual(found);
    expect(found).toMatchObject(word('step.held', { forMs: 5_000 }));
    expect(await bothWays(planWith(stepOn(id, { ask: 'made' })))).toEqual([null, null]);
  });

  it('is resolved from the store if memory is incomplete', async () => {
    const id = await light();
    const undo = { commandId: v7(), tries: 1 };
    const compensation = { action: 'turn_off', params: {} };
    for (const context of [
      planWith(stepOn(id, { action: 'update_firmware', params: { firmware_id: v7() } })),
      planWith(stepOn(id, { undo, compensation, status: 'compensating' })),
      planWith(stepOn(v7())),
      planWith(stepOn(id), { createdBy: { kind: 'user', id: v7() } }),
    ]) {
      const [atHand, found] = await bothWays(context);
      expect([atHand, found === null]).toEqual([null, false]);
    }
  });
});
