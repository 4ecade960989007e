import { setup } from 'xstate';
import { DEFAULT_AGENT_CONFIRM_BY, looserRules, rememberRules, type SafetyPolicy } from '../domain/policy.ts';
import { type EpochMs, SYSTEM } from '../domain/values.ts';
import { actionsFor, changeFixed, type Decision, emitRefusal, guardsFor } from './decision.ts';
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

const suspend = (context: TenantContext, { at, notice }: TenantEventOf<'suspend'>): Decided => {
  const { id } = context.fixed;
  return {
    changes: notice === undefined ? null : changeFixed(context, { suspensionNotice: notice }),
    outputs: [{ type: 'plans.tell', tenantId: id, event: { type: 'tenant.suspended' } }, changed(id, true, at)],
  };
};

/** Plans and edges need no message: only the text changes. */
const replaceNotice = (context: TenantContext, { notice }: TenantEventOf<'suspend'>): Decided => ({
  changes: notice === undefined ? null : changeFixed(context, { suspensionNotice: notice }),
  outputs: [],
});

const resume = ({ fixed }: TenantContext, { at }: TenantEventOf<'resume'>): Decided => {
  const { suspensionNotice, ...resumed } = fixed;
  const { id } = fixed;
  return {
    changes: suspensionNotice === undefined ? null : { fixed: resumed },
    outputs: [{ type: 'plans.tell', tenantId: id, event: { type: 'tenant.resumed' } }, changed(id, false, at)],
  };
};

const setTier =
  (suspended: boolean) =>
  (context: TenantContext, { at, tier }: TenantEventOf<'tier.set'>): Decided => ({
    changes: changeFixed(context, { tier }),
    outputs: [changed(context.fixed.id, suspended, at)],
  });

const setPolicy =
  (suspended: boolean) =>
  (context: TenantContext, { at, by = SYSTEM, policy, change }: TenantEventOf<'policy.set'>): Decided => {
    const { policy: before, earlierRules = [] } = context.fixed;
    const after = { ...before, ...policy };
    const remembered = rememberRules(earlierRules, before, after, at);
    return {
      changes: changeFixed(context, {
        policy: after,
        ...(remembered.length > 0 && { earlierRules: remembered }),
      }),
      outputs: [
        changed(context.fixed.id, suspended, at),
        ...(change === undefined ? [] : [{ type: 'change.apply' as const, changeId: change.id, by, at }]),
      ],
    };
  };

const refuseLooser = (): Decided =>
  emitRefusal('CONFLICT', 'The policy was changed in the meantime. Request the change again.');

/** The new policy is looser than the current one, and was confirmed under another one, or not at all. */
const isUnconfirmed = (
  { fixed: { policy: before } }: TenantContext,
  { policy, loosened }: TenantEventOf<'policy.set'>,
): boolean =>
  looserRules(before, { ...before, ...policy }).length > 0 &&
  (loosened?.confirm_by !== before.confirm_by ||
    loosened.agent_confirm_by !== before.agent_confirm_by ||
    loosened.confirm_ttl_s !== before.confirm_ttl_s);

function isNewPolicy({ fixed }: TenantContext, { policy }: TenantEventOf<'policy.set'>): boolean {
  const before = { agent_confirm_by: DEFAULT_AGENT_CONFIRM_BY, ...fixed.policy };
  return Object.entries(policy).some(([name, value]) => before[name as keyof SafetyPolicy] !== value);
}

const action = actionsFor<TenantContext, TenantEvent>();
const guard = guardsFor<TenantContext, TenantEvent>();

/** The tenant machine: whether its users and devices may act. Memberships are stored in the users' records. */
export const tenantMachine = setup({
  types: { context: {} as TenantContext, events: {} as TenantEvent, emitted: {} as Output },
  actions: {
    register: action(register),
    suspend: action(suspend),
    replaceNotice: action(replaceNotice),
    resume: action(resume),
    setTier: action(setTier(false)),
    setPolicy: action(setPolicy(false)),
    refuseLooser: action(refuseLooser),
    setTierSuspended: action(setTier(true)),
    setPolicySuspended: action(setPolicy(true)),
  },
  guards: {
    isNewPolicy: guard(isNewPolicy),
    isUnconfirmed: guard(isUnconfirmed),
    isNewNotice: guard(
      ({ fixed }, { notice }: TenantEventOf<'suspend'>) => notice !== undefined && notice !== fixed.suspensionNotice,
    ),
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
        'policy.set': [
          { guard: 'isUnconfirmed', actions: 'refuseLooser' },
          { guard: 'isNewPolicy', actions: 'setPolicy' },
        ],
      },
    },
    suspended: {
      description:
        'Suspended by a platform operator: sessions are closed, commands are not dispatched, deadlines continue.',
      on: {
        suspend: { guard: 'isNewNotice', actions: 'replaceNotice' },
        resume: { target: 'active', actions: 'resume' },
        'tier.set': { guard: 'isNewTier', actions: 'setTierSuspended' },
        'policy.set': [
          { guard: 'isUnconfirmed', actions: 'refuseLooser' },
          { guard: 'isNewPolicy', actions: 'setPolicySuspended' },
        ],
      },
    },
  },
});
