import { type OutputResolver, Quarantined } from '../../actors/contract.ts';
import { PLANNER_TIMEOUT_MS } from '../../domain/cognition.ts';
import { SYSTEM } from '../../domain/values.ts';
import type { PlanContext } from '../../machines/plan-types.ts';
import type { Services } from '../operation.ts';
import { cognitionRefusal } from './contexts.ts';

/**
 * What a silence about a plan comes to. While nobody may think for the tenant nobody can be heard; and in its first minute the
 * service itself may not have been listening.
 */
export function plannerTimeoutResolver(services: Services): OutputResolver<'plan.unheard'> {
  const { actors, clock } = services;
  const listeningSince = clock.now();
  return async ({ planId, dueAt }) => {
    const ref = { kind: 'plan', id: planId } as const;
    const plan = await actors.read<PlanContext>(ref);
    const { quarantine } = actors.inspect(ref);
    if (quarantine !== null) throw new Quarantined(quarantine);
    const context = plan?.snapshot.context;
    if (context?.cognition?.overdue !== true || context.cognition.dueAt !== dueAt) return null;
    const barred = await cognitionRefusal(services, context.tenantId);
    const at = clock.now();
    const forMs = barred !== null ? PLANNER_TIMEOUT_MS : listeningSince + PLANNER_TIMEOUT_MS - at;
    const about = { at, by: SYSTEM, dueAt };
    return {
      to: ref,
      event: forMs > 0 ? { ...about, type: 'cognition.excused', forMs } : { ...about, type: 'cognition.unheard' },
    };
  };
}
