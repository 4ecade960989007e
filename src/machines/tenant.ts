import { setup } from 'xstate';
import type { SafetyPolicy } from '../domain/policy.ts';
import type { EpochMs } from '../domain/values.ts';
import { actionsFor, changeFixed, type Decision, guardsFor } from './decision.ts';
import type { Output } from './outputs.ts';
import { initialTenant, type TenantContext, type TenantEvent } from './tenant-types.ts';

type TenantEventOf<Type extends TenantEvent['type']> = Extract<TenantEvent, { type: Type }>;
type Decided = Decision<TenantContext>;

const changed = (tenantId: string, suspended: boolean, at: EpochMs): Output => ({
  type: 'tenant.changed',
  tenantId,
  suspended,
  at,
});

const register = (context: TenantContext, { at, tenant, ownerId }: TenantEventOf<'register'>): Decided => ({
  changes: changeFixed(context, { ...tenant, createdAt: at }),
  outputs: [
    { type: 'member.bind', userId: ownerId, tenantId: tenant.id, role: 'owner' },
    changed(tenant.id, false, at),
  ],
});

const suspension =
  (suspended: boolean) =>
  ({ fixed: { id } }: TenantContext, { at }: { at: EpochMs }): Decided => ({
    changes: null,
    outputs: [
      { type: 'plans.tell', tenantId: id, event: { type: suspended ? 'tenant.suspended' : 'tenant.resumed' } },
      changed(id, suspended, at),
    ],
  });

const setTier =
  (suspended: boolean) =>
  (context: TenantContext, { at, tier }: TenantEventOf<'tier.set'>): Decided => ({
    changes: changeFixed(context, { tier }),
    outputs: [changed(context.fixed.id, suspended, at)],
  });

const setPolicy =
  (suspended: boolean) =>
  (context: TenantContext, { at, policy }: TenantEventOf<'policy.set'>): Decided => ({
    changes: changeFixed(context, { policy: { ...context.fixed.policy, ...policy } }),
    outputs: [changed(context.fixed.id, suspended, at)],
  });

const isNewPolicy = ({ fixed: { policy: before } }: TenantContext, { policy }: TenantEventOf<'policy.set'>): boolean =>
  Object.entries(policy).some(([name, value]) => before[name as keyof SafetyPolicy] !== value);

const action = actionsFor<TenantContext, TenantEvent>();
const guard = guardsFor<TenantContext, TenantEvent>();

/** The tenant machine: whether its users and devices may act. Memberships are stored in the users' records. */
export const tenantMachine = setup({
  types: { context: {} as TenantContext, events: {} as TenantEvent, emitted: {} as Output },
  actions: {
    register: action(register),
    suspend: action(suspension(true)),
    resume: action(suspension(false)),
    setTier: action(setTier(false)),
    setPolicy: action(setPolicy(false)),
    setTierSuspended: action(setTier(true)),
    setPolicySuspended: action(setPolicy(true)),
  },
  guards: {
    isNewPolicy: guard(isNewPolicy),
    isNewTier: guard((context, { tier }: TenantEventOf<'tier.set'>) => tier !== context.fixed.tier),
  },
}).createMachine({
  id: 'tenant',
  description: 'A tenant: whether its users and devices may act.',
  context: initialTenant,
  initial: 'unregistered',
  states: {
    unregistered: {
      description: 'Not registered yet; not visible.',
      on: { register: { target: 'active', actions: 'register' } },
    },
    active: {
      description: 'Users sign in and devices receive commands.',
      on: {
        suspend: { target: 'suspended', actions: 'suspend' },
        'tier.set': { guard: 'isNewTier', actions: 'setTier' },
        'policy.set': { guard: 'isNewPolicy', actions: 'setPolicy' },
      },
    },
    suspended: {
      description:
        'Suspended by a platform operator: sessions are closed, commands are not dispatched, deadlines continue.',
      on: {
        resume: { target: 'active', actions: 'resume' },
        'tier.set': { guard: 'isNewTier', actions: 'setTierSuspended' },
        'policy.set': { guard: 'isNewPolicy', actions: 'setPolicySuspended' },
      },
    },
  },
});
