import { z } from 'zod';
import type { Committed } from '../../actors/contract.ts';
import { contextKinds, plannerPhases } from '../../domain/cognition.ts';
import { failurePolicySchema, planStatusSchema, stepStatusSchema } from '../../domain/enum-schemas.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome } from '../../domain/refusals.ts';
import { jsonObject } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import { planOfRow } from '../../machines/plan-record.ts';
import type { PlanCognition, PlanContext, PlanStep, StepError } from '../../machines/plan-types.ts';
import { principalId } from '../commands/command-view.ts';
import { cursorAfter, cursorsIn, idOf, isoTime, listCount, nextCursor, notFound, paging, startOf } from '../inputs.ts';
import { type Caller, operation, type Services, tenantOf } from '../operation.ts';
import { shapingMemory, shapingMemoryOf } from './shaping-memories.ts';
import { stepFields, stepFieldsOf } from './step-fields.ts';

// Plans in answers.

const step = z
  .object({
    ...stepFields,
    status: stepStatusSchema,
    command_id: uuid.optional().meta({ description: 'Present once the step has a command' }),
    error: z
      .object({ code: z.string(), detail: z.string() })
      .optional()
      .meta({ description: 'Why the step failed, or why it was not undone' }),
  })
  .meta({ id: 'PlanStep' });

const cognitionRecord = z
  .object({
    kind: z.enum(contextKinds),
    phase: z.enum(plannerPhases).meta({ description: 'Until `done`, the sidecar may add steps' }),
    goal: z.string().optional(),
    device_id: uuid.optional(),
    home_id: uuid.optional(),
    proposal_id: uuid.optional().meta({ description: 'The proposal that the plan was created from' }),
    memories: z.array(shapingMemory).optional().meta({
      description: 'The memories that shaped the steps, as named by the sidecar',
    }),
    summary: z.string().optional().meta({ description: 'The sidecar’s summary' }),
    final_state: jsonObject
      .optional()
      .meta({ description: 'The state that the sidecar wanted to reach, with its summary' }),
    reason: z
      .string()
      .optional()
      .meta({ description: 'Why the sidecar has suspended planning, while it is suspended' }),
    error: z
      .object({ code: z.string(), detail: z.string() })
      .optional()
      .meta({ description: 'Why the sidecar failed' }),
  })
  .meta({ id: 'PlanCognition', description: 'For plans whose steps come from the sidecar' });

export const planRecord = z
  .object({
    id: uuid,
    name: z.string().nullable(),
    status: planStatusSchema,
    steps: z.array(step),
    on_failure: failurePolicySchema,
    created_by: z.string().meta({ description: 'The id of the user whose permissions apply to each step' }),
    created_at: isoTime,
    finished_at: isoTime.nullable(),
    cognition: cognitionRecord.optional(),
  })
  .meta({ id: 'Plan' });

export const planAnswer = z.object({ plan: planRecord });

/** A command that is only requested may never be created. */
const hasCommand = ({ commandId, ask, undo }: PlanStep): boolean =>
  commandId !== null && (undo !== null || ask === 'made' || ask === null);

function errorOf({ error, undoError }: PlanStep): { error?: StepError } {
  const reason = undoError ?? error;
  return reason === null ? {} : { error: reason };
}

const stepOf = (one: PlanStep): z.infer<typeof step> => ({
  ...stepFieldsOf(one),
  status: one.status,
  ...(hasCommand(one) && { command_id: one.commandId as Uuid }),
  ...errorOf(one),
});

export const planRecordOf = ({ fixed, live }: PlanContext): z.infer<typeof planRecord> => ({
  id: fixed.id,
  name: fixed.name,
  status: live.status,
  steps: live.steps.map(stepOf),
  on_failure: fixed.onFailure,
  created_by: principalId(fixed.createdBy),
  created_at: iso(fixed.createdAt),
  finished_at: live.finishedAt === null ? null : iso(live.finishedAt),
  // Rows written by an older version have none.
  ...(live.cognition && { cognition: cognitionRecordOf(live.cognition) }),
});

const cognitionRecordOf = (one: PlanCognition): z.infer<typeof cognitionRecord> => ({
  ...{ kind: one.kind, phase: one.phase },
  ...(one.text !== null && { goal: one.text }),
  ...(one.deviceId !== null && { device_id: one.deviceId }),
  ...(one.homeId !== null && { home_id: one.homeId }),
  ...(one.proposalId !== null && { proposal_id: one.proposalId }),
  ...(one.memories !== undefined && { memories: one.memories.map(shapingMemoryOf) }),
  ...(one.summary !== null && one.summary !== '' && { summary: one.summary }),
  ...(one.finalState !== null && { final_state: one.finalState }),
  ...(one.phase === 'suspended' && one.suspensionReason !== undefined && { reason: one.suspensionReason }),
  ...(one.error !== null && { error: { ...one.error } }),
});

/** The caller's plan. The same refusal for a missing plan and for another tenant's. */
export async function findPlan(
  { actors }: Pick<Services, 'actors'>,
  caller: Caller,
  id: Uuid,
): Promise<Outcome<Committed<PlanContext>>> {
  const plan = await actors.read<PlanContext>({ kind: 'plan', id });
  return plan?.snapshot.context.fixed.tenantId === tenantOf(caller) ? done(plan) : notFound('plan');
}

const reading = { role: 'viewer', scope: 'read:plans', changes: false } as const;

export const listPlans = operation({
  ...reading,
  name: 'listPlans',
  summary: "List the tenant's plans with their steps, newest first",
  input: z.strictObject({ ...paging }),
  output: z.object({ plans: z.array(planRecord), count: listCount, next_cursor: nextCursor }),
  needs: ['store'],
  async run({ store }, { input: { limit, cursor }, caller }) {
    const listing = { route: 'plans', filters: {} };
    const start = startOf(listing, cursor);
    if (!start.ok) return start;
    const page = await store.plans.list(tenantOf(caller), limit, start.value);
    const plans = page.items.map((row) => planRecordOf(planOfRow(row)));
    return done({
      body: { plans, count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

export const getPlan = operation({
  ...reading,
  name: 'getPlan',
  summary: 'Show a plan with the statuses of its steps',
  input: z.strictObject({ id: idOf('plan') }),
  output: planAnswer,
  refuses: ['NOT_FOUND'],
  needs: ['actors'],
  async run(services, { input, caller }) {
    const found = await findPlan(services, caller, input.id);
    return found.ok ? done({ body: { plan: planRecordOf(found.value.snapshot.context) } }) : found;
  },
});
