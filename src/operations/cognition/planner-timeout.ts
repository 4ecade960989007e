import { type OutputResolver, Quarantined } from '../../actors/contract.ts';
import { PLANNER_TIMEOUT_MS } from '../../domain/cognition.ts';
import { type EpochMs, SYSTEM, type Uuid } from '../../domain/values.ts';
import type { PlanContext } from '../../machines/plan-types.ts';
import type { Services } from '../operation.ts';
import { cognitionRefusal } from './contexts.ts';

/**
 * Resolves `plan.unheard`: fails a plan whose sidecar did not respond in time. Extends the deadline instead while the
 * cognitive layer is disabled for the tenant, and for `PLANNER_TIMEOUT_MS` after the start of this process or, with
 * `openedAt`, after it took over the tenant: it may have missed the response, and its sidecar has just received the plan.
 */
export function plannerTimeoutResolver(
  services: Pick<Services, 'actors' | 'clock' | 'flags'>,
  openedAt: (tenantId: Uuid) => EpochMs | null = () => null,
): OutputResolver<'plan.unheard'> {
  const { actors, clock } = services;
  const startedAt = clock.now();
  return async ({ planId, dueAt }) => {
    const ref = { kind: 'plan', id: planId } as const;
    const plan = await actors.read<PlanContext>(ref);
    const { quarantine } = actors.inspect(ref);
    if (quarantine !== null) throw new Quarantined(quarantine);
    const context = plan?.snapshot.context;
    if (context?.live.cognition?.overdue !== true || context.live.cognition.dueAt !== dueAt) return null;
    const { tenantId } = context.fixed;
    const disabled = await cognitionRefusal(services, tenantId);
    const at = clock.now();
    const listeningSince = Math.max(startedAt, openedAt(tenantId) ?? startedAt);
    const forMs = disabled !== null ? PLANNER_TIMEOUT_MS : listeningSince + PLANNER_TIMEOUT_MS - at;
    const base = { at, by: SYSTEM, dueAt };
    return {
      to: ref,
      event: forMs > 0 ? { ...base, type: 'cognition.excused', forMs } : { ...base, type: 'cognition.unheard' },
    };
  };
}
