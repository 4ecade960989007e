import { type OutputResolver, Quarantined } from '../../actors/contract.ts';
import { PLANNER_TIMEOUT_MS } from '../../domain/cognition.ts';
import { SYSTEM } from '../../domain/values.ts';
import type { PlanContext } from '../../machines/plan-types.ts';
import type { Services } from '../operation.ts';
import { cognitionRefusal } from './contexts.ts';

/**
 * Resolves `plan.unheard`: fails a plan whose sidecar did not respond in time. Extends the deadline instead while the
 * cognitive layer is disabled for the tenant, and for `PLANNER_TIMEOUT_MS` after the start of this process, which may
 * have missed the response.
 */
export function plannerTimeoutResolver(
  services: Pick<Services, 'actors' | 'clock' | 'flags'>,
): OutputResolver<'plan.unheard'> {
  const { actors, clock } = services;
  const listeningSince = clock.now();
  return async ({ planId, dueAt }) => {
    const ref = { kind: 'plan', id: planId } as const;
    const plan = await actors.read<PlanContext>(ref);
    const { quarantine } = actors.inspect(ref);
    if (quarantine !== null) throw new Quarantined(quarantine);
    const context = plan?.snapshot.context;
    if (context?.live.cognition?.overdue !== true || context.live.cognition.dueAt !== dueAt) return null;
    const disabled = await cognitionRefusal(services, context.fixed.tenantId);
    const at = clock.now();
    const forMs = disabled !== null ? PLANNER_TIMEOUT_MS : listeningSince + PLANNER_TIMEOUT_MS - at;
    const base = { at, by: SYSTEM, dueAt };
    return {
      to: ref,
      event: forMs > 0 ? { ...base, type: 'cognition.excused', forMs } : { ...base, type: 'cognition.unheard' },
    };
  };
}
