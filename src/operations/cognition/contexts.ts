import type { Committed } from '../../actors/contract.ts';
import { CONTEXT_LIFE_MS } from '../../domain/cognition.ts';
import { type Proposal, proposalStatusOf } from '../../domain/proposal.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { PlanCognition, PlanContext, PlanStep, StepInput } from '../../machines/plan-types.ts';
import { isActiveSnapshot } from '../../machines/tenant-record.ts';
import type { Page, Position } from '../../store/contract.ts';
import type { Services } from '../operation.ts';
import type { ActiveContext, ContextNode } from './contract.ts';

// Contexts for the sidecar: the plan of a goal or a device request, or the proposal of an observation.

export type ContextSource = { plan: Committed<PlanContext> } | { proposal: Proposal };

/** The plan or proposal with this id, active or not; null if there is none or it never involved the sidecar. */
export async function findContext(
  { actors, store }: Pick<Services, 'actors' | 'store'>,
  id: Uuid,
): Promise<ContextSource | null> {
  const plan = await actors.read<PlanContext>({ kind: 'plan', id });
  if (plan !== null) {
    // The plan of an accepted proposal is reported under the proposal's id.
    const { cognition } = plan.snapshot.context.live;
    return cognition === null || cognition.proposalId !== null ? null : { plan };
  }
  const proposal = await store.proposals.find(id);
  return proposal && { proposal };
}

/**
 * Serializes what changes a context, in order of arrival: requests of the sidecar, the end of a suspension, and accepting and
 * refusing a proposal.
 */
export const withContextLock = <T>({ locks }: Pick<Services, 'locks'>, id: Uuid, work: () => Promise<T>): Promise<T> =>
  locks.exclusive(`context:${id}`, work);

export const tenantOfContext = (found: ContextSource): Uuid =>
  'plan' in found ? found.plan.snapshot.context.fixed.tenantId : found.proposal.tenantId;

/** Why the cognitive layer is disabled for this tenant, or null. */
export async function cognitionRefusal(
  { actors, flags }: Pick<Services, 'actors' | 'flags'>,
  tenantId: Uuid,
): Promise<Refusal | null> {
  if (flags().cognition_disabled) {
    return { code: 'COGNITION_DISABLED', detail: 'The cognitive layer is disabled.' };
  }
  const tenant = await actors.read({ kind: 'tenant', id: tenantId });
  if (tenant !== null && isActiveSnapshot(tenant.snapshot)) return null;
  return { code: 'TENANT_SUSPENDED', detail: 'The tenant is suspended.' };
}

/** Null if it no longer waits for the sidecar. */
export function activeContextOf({ clock }: Pick<Services, 'clock'>, found: ContextSource): ActiveContext | null {
  if ('plan' in found) return contextOfPlan(found.plan.snapshot.context);
  return proposalStatusOf(found.proposal, clock.now()) === 'pending' ? contextOfProposal(found.proposal) : null;
}

function contextOfPlan({
  fixed: { id, tenantId, createdAt },
  live: { cognition, steps },
}: PlanContext): ActiveContext | null {
  if (cognition === null || cognition.phase === 'done') return null;
  const { kind, homeId, deviceId, text, action, note, phase }: PlanCognition = cognition;
  const request = { kind, homeId, deviceId, text, action, note };
  return { ...request, id, tenantId, data: null, phase, createdAt, nodes: steps.map(nodeOf) };
}

function contextOfProposal(proposal: Proposal): ActiveContext | null {
  const { id, tenantId, homeId, deviceId, data, note, phase, createdAt, steps } = proposal;
  if (phase === 'done') return null;
  const request = { kind: 'observation', homeId, deviceId, text: null, action: null, note } as const;
  return { ...request, id, tenantId, data, phase, createdAt, nodes: steps.map(proposedNode) };
}

const stepFieldsOf = ({ id, deviceId, action, params, dependsOn, compensation, timeoutS }: StepInput) => ({
  ...{ id, deviceId, action, params, dependsOn, compensation, timeoutS },
});

const nodeOf = (step: PlanStep): ContextNode => ({
  ...stepFieldsOf(step),
  status: step.status,
  commandId: step.status === 'pending' ? null : step.commandId,
  error: step.undoError ?? step.error,
});

const proposedNode = (step: StepInput): ContextNode => ({
  ...stepFieldsOf(step),
  ...{ status: 'pending', commandId: null, error: null },
});

const PAGE = 100;

/**
 * All active contexts of one tenant, or of all tenants of this node that are not suspended: plans, then proposals, oldest
 * first.
 */
export async function* activeContexts(
  services: Pick<Services, 'actors' | 'clock' | 'store'>,
  tenantId?: Uuid,
): AsyncGenerator<ActiveContext> {
  const { actors, store, clock } = services;
  for await (const ids of pages((after) => store.plans.awaitingPlanner(PAGE, after, tenantId))) {
    const plans = await actors.readAll<PlanContext>('plan', ids);
    for (const id of ids) {
      const plan = plans.get(id);
      const active = plan === undefined ? null : activeContextOf(services, { plan });
      if (active !== null && actors.owns(active.tenantId)) yield active;
    }
  }
  const since = clock.now() - CONTEXT_LIFE_MS;
  for await (const proposals of pages((after) => store.proposals.open(since, PAGE, after, tenantId))) {
    for (const proposal of proposals) {
      const active = activeContextOf(services, { proposal });
      if (active !== null && actors.owns(active.tenantId)) yield active;
    }
  }
}

async function* pages<T>(read: (after?: Position) => Promise<Page<T>>): AsyncGenerator<readonly T[]> {
  let after: Position | undefined;
  do {
    const page = await read(after);
    yield page.items;
    after = page.next ?? undefined;
  } while (after !== undefined);
}
