import { z } from 'zod';
import { EventFailed } from '../../actors/contract.ts';
import { iso } from '../../domain/iso-time.ts';
import { expiryOf, type Proposal, proposalStatuses, proposalStatusOf } from '../../domain/proposal.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { jsonObject, reason } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { PlanContext } from '../../machines/plan-types.ts';
import { principalId } from '../commands/command-view.ts';
import { cursorAfter, idOf, isoTime, listCount, nextCursor, notFound, paging, startOf } from '../inputs.ts';
import { type Caller, operation, type Services, tenantOf } from '../operation.ts';
import { planAnswer, planRecordOf } from '../plans/plan-view.ts';
import { loadStepTargets, startPlan } from '../plans/plans.ts';
import { shapingMemory, shapingMemoryOf } from '../plans/shaping-memories.ts';
import { stepFields, stepFieldsOf } from '../plans/step-fields.ts';
import { withContextLock } from './contexts.ts';
import { notifyNodeChange, notifySidecar } from './sidecar-events.ts';

// Proposals from observations: users list, accept and refuse them. A sidecar can do none of these.

const step = z.object(stepFields).meta({ id: 'ProposedStep' });

const proposal = z
  .object({
    id: uuid,
    status: z.enum(proposalStatuses).meta({
      description: '`pending` until a user decides; `refused` also if the sidecar proposes nothing or failed',
    }),
    reason: z.string().nullable().meta({
      description:
        'The sidecar’s reason for its steps, or for proposing none; after a refusal, the reason of the user, if any',
    }),
    steps: z.array(step).meta({ description: 'Empty until the sidecar has responded, or if it proposes nothing' }),
    memories: z.array(shapingMemory).optional().meta({ description: 'The memories that shaped the steps' }),
    plan_id: uuid.optional().meta({ description: 'The plan, once accepted' }),
    device_id: uuid.meta({ description: 'The observed device' }),
    data: jsonObject,
    context: z.string().optional(),
    asked_by: z.string().meta({ description: 'The id of the user who sent the observation' }),
    created_at: isoTime,
    expires_at: isoTime,
  })
  .meta({ id: 'Proposal' });
const proposalAnswer = z.object({ proposal });

const proposalOf = (one: Proposal, now: EpochMs): z.infer<typeof proposal> => ({
  ...{ id: one.id, status: proposalStatusOf(one, now), reason: one.reason },
  steps: one.phase === 'done' ? one.steps.map(stepFieldsOf) : [],
  ...(one.phase === 'done' &&
    one.steps.length > 0 &&
    one.memories !== null && { memories: one.memories.map(shapingMemoryOf) }),
  ...(one.planId !== null && { plan_id: one.planId }),
  ...{ device_id: one.deviceId, data: one.data, ...(one.note !== null && { context: one.note }) },
  ...{ asked_by: principalId(one.askedBy), created_at: iso(one.createdAt), expires_at: iso(expiryOf(one)) },
});

/** The caller's proposal. The same refusal for a missing proposal and for another tenant's. */
async function findProposal({ store }: Pick<Services, 'store'>, caller: Caller, id: Uuid): Promise<Outcome<Proposal>> {
  const found = await store.proposals.find(id);
  return found?.tenantId === tenantOf(caller) ? done(found) : notFound('proposal');
}

const reading = { role: 'viewer', scope: 'read:plans', changes: false } as const;

// For the API reference.
const PROPOSAL = {
  id: '0195d9a2-7f00-7000-8000-00000000000e',
  status: 'pending' as const,
  reason: 'Humidity is high: run the fan for a while.',
  steps: [
    {
      ...{ id: 'fan', device_id: '0195d9a2-7f00-7000-8000-000000000002', action: 'turn_on', params: {} },
      ...{ depends_on: [], compensation: { action: 'turn_off', params: {} } },
    },
  ],
  device_id: '0195d9a2-7f00-7000-8000-000000000001',
  data: { humidity: 81 },
  context: 'After a shower',
  asked_by: '0195d9a2-7f00-7000-8000-000000000005',
  created_at: '2026-03-01T12:00:00.000Z',
  expires_at: '2026-03-02T12:00:00.000Z',
};

export const listProposals = operation({
  ...reading,
  name: 'listProposals',
  summary: 'List the proposals from observations, newest first',
  input: z.strictObject({ ...paging }),
  output: z.object({ proposals: z.array(proposal), count: listCount, next_cursor: nextCursor }),
  example: { output: { proposals: [PROPOSAL], count: 1, next_cursor: null } },
  needs: ['clock', 'store'],
  async run({ store, clock }, { input: { limit, cursor }, caller }) {
    const listing = { route: 'proposals', filters: {} };
    const start = startOf(listing, cursor);
    if (!start.ok) return start;
    const page = await store.proposals.list(tenantOf(caller), limit, start.value);
    const now = clock.now();
    return done({
      body: {
        proposals: page.items.map((one) => proposalOf(one, now)),
        count: await page.count(),
        next_cursor: cursorAfter(listing, page),
      },
    });
  },
});

export const getProposal = operation({
  ...reading,
  name: 'getProposal',
  summary: 'Show a proposal, which is pending and has no steps until the sidecar has responded',
  input: z.strictObject({ id: idOf('proposal') }),
  output: proposalAnswer,
  refuses: ['NOT_FOUND'],
  example: { output: { proposal: PROPOSAL } },
  needs: ['clock', 'store'],
  async run(services, { input, caller }) {
    const found = await findProposal(services, caller, input.id);
    return found.ok ? done({ body: { proposal: proposalOf(found.value, services.clock.now()) } }) : found;
  },
});

export const acceptProposal = operation({
  name: 'acceptProposal',
  summary: 'Accept a proposal: it runs as your plan',
  input: z.strictObject({ id: idOf('proposal') }),
  output: planAnswer,
  role: 'user',
  scope: 'execute:plans',
  alsoScope: 'execute:commands',
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND', 'CONFLICT'],
  needs: ['actors', 'clock', 'locks', 'manifests', 'newId', 'seal', 'sessions', 'store'],
  run(services, { input, caller, idempotent }) {
    return withContextLock(services, input.id, async () => {
      const found = await findProposal(services, caller, input.id);
      if (!found.ok) return found;
      const conflict = acceptanceConflict(found.value, services.clock.now());
      if (conflict !== null) return refuse('CONFLICT', conflict);
      const { steps } = found.value;
      const targets = await loadStepTargets(services, caller, steps);
      if (!targets.ok) return targets;
      const answer = (plan: PlanContext) => ({ body: { plan: planRecordOf(plan) } });
      try {
        const cognition = cognitionOf(found.value);
        const newPlan = { name: null, onFailure: 'rollback', steps, targets: targets.value, cognition } as const;
        return done(
          answer(await startPlan(services, caller, newPlan, (plan) => idempotent?.toRow(answer(plan)) ?? null)),
        );
      } catch (thrown) {
        if (!(thrown instanceof EventFailed)) throw thrown;
        // Another process has decided in the meantime.
        const now = await findProposal(services, caller, input.id);
        if (!now.ok || now.value.status === 'pending') throw thrown;
        return refuse('CONFLICT', `The proposal is ${now.value.status} already.`);
      }
    });
  },
});

function acceptanceConflict(one: Proposal, now: EpochMs): string | null {
  const status = proposalStatusOf(one, now);
  if (status !== 'pending') return `The proposal is ${status} already.`;
  if (one.phase !== 'done') return 'The sidecar has not responded yet.';
  return null;
}

const cognitionOf = ({ id, homeId, deviceId, note, memories }: Proposal) => ({
  ...{ kind: 'observation' as const, homeId, deviceId, text: null, action: null, note },
  proposalId: id,
  ...(memories !== null && { memories }),
});

export const refuseProposal = operation({
  name: 'refuseProposal',
  summary: 'Refuse a proposal; none of its steps run',
  input: z.strictObject({ id: idOf('proposal'), reason: reason.optional() }),
  output: proposalAnswer,
  role: 'user',
  scope: 'execute:plans',
  changes: true,
  inMaintenance: true,
  auditSubject: ({ input }) => `proposal:${input.id}`,
  refuses: ['NOT_FOUND', 'CONFLICT'],
  example: { input: { reason: 'The window is open.' }, output: { proposal: { ...PROPOSAL, status: 'refused' } } },
  needs: ['clock', 'locks', 'sidecar', 'store'],
  run(services, { input, caller, idempotent }) {
    const { clock, store } = services;
    return withContextLock(services, input.id, async () => {
      const found = await findProposal(services, caller, input.id);
      if (!found.ok) return found;
      const answer = (one: Proposal) => ({ body: { proposal: proposalOf(one, clock.now()) } });
      const status = proposalStatusOf(found.value, clock.now());
      if (status === 'refused') return done(answer(found.value));
      if (status !== 'pending') return refuse('CONFLICT', `The proposal is ${status} already.`);
      const changes = { status: 'refused', ...(input.reason !== undefined && { reason: input.reason }) } as const;
      const row = idempotent?.toRow(answer({ ...found.value, ...changes }));
      const refused = await store.proposals.change(input.id, changes, row);
      if (refused === null) return refuse('CONFLICT', 'The proposal is no longer pending.');
      notifyRefused(services, found.value);
      return done(answer(refused));
    });
  },
});

function notifyRefused(services: Pick<Services, 'clock' | 'sidecar'>, before: Proposal): void {
  if (before.phase !== 'done') {
    notifySidecar(services, before, {
      type: 'interrupted',
      reason: 'CANCELLED',
      detail: 'A user refused the proposal.',
    });
  }
  for (const { id } of before.steps) notifyNodeChange(services, before, id, 'pending', 'skipped');
}
