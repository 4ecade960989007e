import { expect, it } from 'vitest';
import { Quarantined } from '../../../src/actors/contract.ts';
import { PLANNER_TIMEOUT_MS } from '../../../src/domain/cognition.ts';
import { plannerTimeoutResolver } from '../../../src/operations/cognition/planner-timeout.ts';
import type { Services } from '../../../src/operations/operation.ts';

const DUE = 500;

/** A service that started at 1,000, and a plan whose planner was silent until `DUE`. */
function service({ overdue = true, quarantine = null as string | null, openedAt = null as number | null } = {}) {
  const at = { now: 1_000 };
  const plan = { snapshot: { context: { fixed: { tenantId: 't' }, live: { cognition: { overdue, dueAt: DUE } } } } };
  const services = {
    actors: {
      read: async ({ kind }: { kind: string }) => (kind === 'plan' ? plan : { snapshot: { value: 'active' } }),
      inspect: () => ({ live: true, mailbox: 0, quarantine }),
    },
    clock: { now: () => at.now },
    flags: () => ({ cognition_disabled: false }),
  } as unknown as Services;
  const resolve = plannerTimeoutResolver(services, (tenantId) => (tenantId === 't' ? openedAt : null));
  return { at, request: (dueAt = DUE) => resolve({ type: 'plan.unheard', planId: 'p', dueAt }) };
}

it('ignores silence in the first minute of the service, which may have missed messages', async () => {
  const { at, request } = service();
  at.now += 20_000;
  expect(await request()).toMatchObject({
    to: { kind: 'plan', id: 'p' },
    event: { type: 'cognition.excused', dueAt: DUE, forMs: PLANNER_TIMEOUT_MS - 20_000 },
  });
  at.now = 1_000 + PLANNER_TIMEOUT_MS;
  expect(await request()).toMatchObject({ event: { type: 'cognition.unheard', dueAt: DUE } });
});

it('ignores silence in the first minute after the tenant came from another node', async () => {
  const openedAt = 500_000;
  const { at, request } = service({ openedAt });
  at.now = openedAt + 20_000;
  expect(await request()).toMatchObject({
    event: { type: 'cognition.excused', dueAt: DUE, forMs: PLANNER_TIMEOUT_MS - 20_000 },
  });
  at.now = openedAt + PLANNER_TIMEOUT_MS;
  expect(await request()).toMatchObject({ event: { type: 'cognition.unheard', dueAt: DUE } });
});

it('does not fire if the planner was active in the meantime', async () => {
  expect(await service({ overdue: false }).request()).toBeNull();
  expect(await service().request(DUE + 1)).toBeNull();
});

it('keeps the output of a quarantined plan until it is released', async () => {
  const { request } = service({ quarantine: 'the stored state does not match the machine' });
  await expect(request()).rejects.toThrow(new Quarantined('the stored state does not match the machine'));
});
