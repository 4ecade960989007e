import { describe, expect, it } from 'vitest';
import { isSuspendedSnapshot, tenantDefinition } from '../../src/machines/tenant-record.ts';
import type { TenantContext, TenantEvent } from '../../src/machines/tenant-types.ts';
import { fc } from '../support/properties.ts';
import { flatContext } from '../support/stored-context.ts';
import { Driven, NOTHING } from './machine-driver.ts';
import { untaken } from './random-walk.ts';
import { other, requester, T0, TENANT, uuid } from './samples.ts';

const POLICY = { confirm_by: 'person', confirm_ttl_s: 60 } as const;

const register: TenantEvent = {
  type: 'register',
  at: T0,
  by: requester,
  tenant: { id: TENANT, name: 'Lindenhof', slug: 'lindenhof', tier: 'free' },
  ownerId: requester.id,
};
const changed = (suspended: boolean, at: number) => ({ type: 'tenant.changed', tenantId: TENANT, suspended, at });
const blank = () => new Driven<TenantContext, TenantEvent>(tenantDefinition);
const active = () => {
  const driven = blank();
  driven.send(register);
  return driven;
};
const suspended = () => {
  const driven = active();
  driven.send({ type: 'suspend', at: T0 + 1, by: other });
  return driven;
};

describe('a tenant', () => {
  it('is registered once, with its owner in the same commit', () => {
    const driven = blank();
    expect(driven.send(register)).toEqual({
      same: false,
      outputs: [{ type: 'member.bind', userId: requester.id, tenantId: TENANT, role: 'owner' }, changed(false, T0)],
      timers: [],
    });
    expect(driven.value).toBe('active');
    expect(driven.context).toEqual({
      fixed: {
        id: TENANT,
        name: 'Lindenhof',
        slug: 'lindenhof',
        tier: 'free',
        policy: { confirm_by: 'requester', confirm_ttl_s: 300 },
        createdAt: T0,
      },
      live: {},
    });
    expect(driven.send(register)).toEqual(NOTHING);
  });

  it('does not exist before that', () => {
    for (const event of [
      { type: 'suspend', at: T0 },
      { type: 'resume', at: T0 },
      { type: 'tier.set', at: T0, tier: 'pro' },
      { type: 'policy.set', at: T0, policy: POLICY },
    ] satisfies TenantEvent[]) {
      expect(blank().send(event)).toEqual(NOTHING);
    }
  });

  it('is suspended and resumed, each once, and notifies its plans', () => {
    const messageOfType = (type: string) => ({ type: 'plans.tell', tenantId: TENANT, event: { type } });
    const driven = active();
    expect(driven.send({ type: 'resume', at: T0 + 1 })).toEqual(NOTHING);
    expect(driven.send({ type: 'suspend', at: T0 + 2 }).outputs).toEqual([
      messageOfType('tenant.suspended'),
      changed(true, T0 + 2),
    ]);
    expect(isSuspendedSnapshot(driven.asSnapshot())).toBe(true);
    expect(driven.send({ type: 'suspend', at: T0 + 3 })).toEqual(NOTHING);
    expect(driven.send({ type: 'resume', at: T0 + 4 }).outputs).toEqual([
      messageOfType('tenant.resumed'),
      changed(false, T0 + 4),
    ]);
    expect(isSuspendedSnapshot(driven.asSnapshot())).toBe(false);
  });

  it.each([
    ['active', active, false],
    ['suspended', suspended, true],
  ] as const)('accepts a tier and a policy when it is %s', (value, make, isNow) => {
    const driven = make();
    expect(driven.send({ type: 'tier.set', at: T0 + 5, tier: 'pro' }).outputs).toEqual([changed(isNow, T0 + 5)]);
    expect(driven.send({ type: 'tier.set', at: T0 + 6, tier: 'pro' })).toEqual(NOTHING);
    expect(driven.send({ type: 'policy.set', at: T0 + 7, policy: POLICY }).outputs).toEqual([changed(isNow, T0 + 7)]);
    expect(driven.context).toMatchObject({ fixed: { tier: 'pro', policy: POLICY } });
    expect(driven.value).toBe(value);
  });

  it('is not changed by its current policy', () => {
    const driven = active();
    const unchanged = [
      {},
      { confirm_by: 'requester' },
      { agent_confirm_by: 'person' },
      { confirm_ttl_s: 300 },
    ] as const;
    for (const policy of unchanged) {
      expect(driven.send({ type: 'policy.set', at: T0 + 5, policy })).toEqual(NOTHING);
    }
    expect(driven.send({ type: 'policy.set', at: T0 + 6, policy: { confirm_ttl_s: 60 } }).same).toBe(false);
    expect(driven.context.fixed.policy).toEqual({ confirm_by: 'requester', confirm_ttl_s: 60 });
  });

  it('gets a looser policy only if it was confirmed under the current one, and remembers the stricter rules', () => {
    const driven = active();
    driven.send({ type: 'policy.set', at: T0 + 5, policy: POLICY });
    const looser = { type: 'policy.set', at: T0 + 6, by: requester, policy: { confirm_by: 'requester' } } as const;
    const refused = [{ type: 'refused', refusal: { code: 'CONFLICT', detail: expect.any(String) } }];
    expect(driven.send(looser)).toEqual({ ...NOTHING, outputs: refused });
    const before = driven.asSnapshot();
    expect(driven.send({ ...looser, loosened: { ...POLICY, confirm_ttl_s: 61 } }).outputs).toEqual(refused);
    const change = { id: 'c', digest: 'd', requestedBy: other, weaker: ['Looser.'] };
    const confirmed = { ...looser, loosened: POLICY, change };
    expect(driven.send(confirmed).outputs).toEqual([
      changed(false, T0 + 6),
      { type: 'change.apply', changeId: 'c', by: requester, at: T0 + 6 },
    ]);
    expect(driven.context.fixed).toMatchObject({
      policy: { confirm_by: 'requester', confirm_ttl_s: 60 },
      earlierRules: [{ confirm_by: ['person'], agent_confirm_by: ['person'], confirm_ttl_s: 60, until: T0 + 6 }],
    });
    expect(tenantDefinition.journal(confirmed, before, driven.asSnapshot())).toMatchObject({
      data: { change: { id: 'c', digest: 'd', requested_by: other.id, weaker: ['Looser.'] } },
    });
    const { context } = driven;
    driven.reload();
    expect(driven.context).toEqual(context);
    expect(tenantDefinition.toAdminView(context).earlier_rules).toEqual([
      {
        confirm_by: ['person'],
        agent_confirm_by: ['person'],
        confirm_ttl_s: 60,
        until: new Date(T0 + 6).toISOString(),
      },
    ]);
  });
});

describe('the record of a tenant', () => {
  const snapshotOf = (driven: Driven<TenantContext, TenantEvent>) => driven.asSnapshot();

  it('is loaded from the store unchanged', () => {
    const driven = suspended();
    const { context } = driven;
    driven.reload();
    expect(driven.context).toEqual(context);
    expect(driven.value).toBe('suspended');
    expect(tenantDefinition.tenantOf(context)).toBe(TENANT);
    const { createdAt, ...shown } = context.fixed;
    const policy = { agent_confirm_by: 'person', ...shown.policy };
    expect(tenantDefinition.toAdminView(context)).toEqual({
      ...shown,
      policy,
      created_at: new Date(createdAt).toISOString(),
    });
  });

  it('has the notice for its members while it is suspended', () => {
    const driven = active();
    driven.send({ type: 'suspend', at: T0 + 1, reason: 'Unpaid', notice: 'Your subscription has ended.' });
    const during = snapshotOf(driven);
    expect(during.context.fixed.suspensionNotice).toBe('Your subscription has ended.');
    expect(tenantDefinition.fromStored(flatContext(tenantDefinition.toStored(during.context)))).toEqual(during.context);
    expect(tenantDefinition.toAdminView(during.context)).toMatchObject({
      suspension_notice: 'Your subscription has ended.',
    });
    driven.send({ type: 'resume', at: T0 + 2 });
    expect(snapshotOf(driven).context).toEqual(snapshotOf(active()).context);
    driven.send({ type: 'suspend', at: T0 + 3, reason: 'Unpaid' });
    expect(snapshotOf(driven).context.fixed).not.toHaveProperty('suspensionNotice');
  });

  it('has another notice after a second suspension, which nothing else receives', () => {
    const driven = suspended();
    const first: TenantEvent = { type: 'suspend', at: T0 + 2, by: other, notice: 'Your subscription has ended.' };
    for (const event of [first, { ...first, at: T0 + 3, notice: 'Pay by Friday.' }]) {
      const before = snapshotOf(driven);
      expect(driven.send(event)).toMatchObject({ same: false, outputs: [], timers: [] });
      const after = snapshotOf(driven);
      expect([driven.value, after.context.fixed.suspensionNotice]).toEqual(['suspended', event.notice]);
      expect(tenantDefinition.journal(event, before, after)).toEqual({ data: { notice: event.notice } });
    }
    expect(driven.send({ ...first, notice: 'Pay by Friday.' })).toEqual(NOTHING);
    expect(driven.send({ type: 'suspend', at: T0 + 4, reason: 'Unpaid' })).toEqual(NOTHING);
  });

  it('has the columns that queries need', () => {
    const columns = { name: 'Lindenhof', slug: 'lindenhof', suspended: false, created_at: T0 };
    expect(tenantDefinition.columns(snapshotOf(active()))).toEqual(columns);
    expect(tenantDefinition.columns(snapshotOf(suspended()))).toEqual({ ...columns, suspended: true });
  });

  it('is journaled at each transition', () => {
    const before = snapshotOf(active());
    const after = snapshotOf(suspended());
    const note = (event: TenantEvent) => tenantDefinition.journal(event, before, after);
    expect(tenantDefinition.journal(register, null, before)).toEqual({
      data: { name: 'Lindenhof', slug: 'lindenhof', tier: 'free', owner_id: requester.id },
    });
    expect(note({ type: 'suspend', at: T0 })).toEqual({ data: {} });
    const texts = { reason: 'Unpaid', notice: 'Your subscription has ended.' };
    expect(note({ type: 'suspend', at: T0, ...texts })).toEqual({ data: texts });
    expect(note({ type: 'resume', at: T0 })).toEqual({ data: {} });
    expect(note({ type: 'tier.set', at: T0, tier: 'pro' })).toEqual({ data: { tier: 'pro' } });
    expect(tenantDefinition.journal({ type: 'suspend', at: T0 }, before, before)).toBeNull();
  });

  it('is journaled with the whole policy after a partial change', () => {
    const driven = active();
    const before = snapshotOf(driven);
    const event: TenantEvent = { type: 'policy.set', at: T0 + 1, by: requester, policy: { confirm_by: 'person' } };
    driven.send(event);
    const policy = { confirm_by: 'person', confirm_ttl_s: 300 };
    expect(driven.context.fixed.policy).toEqual(policy);
    expect(tenantDefinition.journal(event, before, snapshotOf(driven))).toEqual({ data: { policy } });
  });

  it('refuses a stored context that does not fit', () => {
    const stored = flatContext(tenantDefinition.toStored(active().context));
    expect(tenantDefinition.fromStored(stored)).toEqual(active().context);
    expect(() => tenantDefinition.fromStored({ ...stored, tier: 7 })).toThrow();
    expect(() => tenantDefinition.fromStored({ ...stored, more: 1 })).toThrow();
    expect(() => tenantDefinition.fromStored({ ...stored, id: uuid(1).slice(1) })).toThrow();
  });

  it('is never passivated, and has no transient events', () => {
    expect(tenantDefinition.canPassivate(snapshotOf(suspended()))).toBe(false);
    expect(tenantDefinition.isTransient(register)).toBe(false);
  });
});

describe('for random events of a tenant', () => {
  const nudges: fc.Arbitrary<(at: number) => TenantEvent> = fc.oneof(
    fc.constant((at: number): TenantEvent => ({ ...register, at })),
    fc.constantFrom('suspend' as const, 'resume' as const).map((type) => (at: number) => ({ type, at, by: other })),
    fc.constantFrom('Pay by Friday.', 'Pay today.').map(
      (notice) =>
        (at: number): TenantEvent => ({ type: 'suspend', at, notice }),
    ),
    fc.constantFrom('free', 'pro').map(
      (tier) =>
        (at: number): TenantEvent => ({ type: 'tier.set', at, tier }),
    ),
    fc
      .record(
        { confirm_by: fc.constantFrom('requester', 'person'), confirm_ttl_s: fc.constantFrom(60, 300) },
        { requiredKeys: [] },
      )
      .map((policy) => (at: number) => ({ type: 'policy.set', at, policy }) as TenantEvent),
  );
  const walks = fc.array(fc.record({ nudge: nudges, restored: fc.boolean() }), { maxLength: 60 });

  it('every transition of its chart is taken, and its suspension follows its events', () => {
    const go = (walk: typeof walks extends fc.Arbitrary<infer T> ? T : never): void => {
      const driven = blank();
      for (const [n, { nudge, restored }] of walk.entries()) {
        for (const output of driven.send(nudge(T0 + n)).outputs) {
          if (output.type === 'tenant.changed') expect(output.suspended).toBe(isSuspendedSnapshot(driven.asSnapshot()));
        }
        if (restored && driven.value !== 'unregistered') driven.reload();
      }
    };
    expect(untaken(tenantDefinition, { walks, most: 200, go })).toEqual([]);
  });
});
