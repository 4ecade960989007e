import { z } from 'zod';
import { contextKinds, plannerPhases } from '../domain/cognition.ts';
import { iso } from '../domain/iso-time.ts';
import { failurePolicies, isFinalPlanStatus, planStatuses, stepStatuses } from '../domain/plan.ts';
import { isScope, type Scope } from '../domain/scopes.ts';
import type { JsonObject, Uuid } from '../domain/values.ts';
import type { JournalNote, MachineDefinition, MachineEvent, Snapshot, StoredContext } from './definition.ts';
import type { ActorRef } from './outputs.ts';
import { planMachine, planMachineV1 } from './plan.ts';
import type { PlanCognition, PlanContext, PlanEvent, PlanFixed, PlanLive } from './plan-types.ts';
import { isPlannerActive } from './plan-update.ts';
import { count, epochMs, principal, storedJsonObject, storedUuid } from './stored-schemas.ts';

// Stored form, journal entries and admin view of a plan.

export const isPlanFinal = ({ context }: Pick<Snapshot<PlanContext>, 'context'>): boolean =>
  isFinalPlanStatus(context.live.status);

const stepError = z.strictObject({ code: z.string(), detail: z.string() }).nullable();

const step = z.strictObject({
  id: z.string(),
  deviceId: storedUuid,
  action: z.string(),
  params: storedJsonObject,
  dependsOn: z.array(z.string()),
  compensation: z.strictObject({ action: z.string(), params: storedJsonObject }).nullable(),
  timeoutS: count.nullable(),
  status: z.enum(stepStatuses),
  commandId: storedUuid.nullable(),
  ask: z.enum(['asked', 'held', 'made', 'pausing']).nullable(),
  parked: z.boolean(),
  acted: z.boolean(),
  finished: count.nullable(),
  undo: z.strictObject({ commandId: storedUuid, tries: count }).nullable(),
  error: stepError,
  undoError: stepError,
});

/** A scope, which was validated with the token. */
const scope = z.custom<Scope>((given) => typeof given === 'string' && isScope(given));

const cognition = z.strictObject({
  kind: z.enum(contextKinds),
  homeId: storedUuid.nullable(),
  deviceId: storedUuid.nullable(),
  text: z.string().nullable(),
  action: z.strictObject({ action: z.string(), params: storedJsonObject }).nullable(),
  note: z.string().nullable(),
  proposalId: storedUuid.nullable(),
  phase: z.enum(plannerPhases),
  dueAt: epochMs.nullable(),
  armedFor: epochMs.nullable(),
  overdue: z.boolean(),
  summary: z.string().nullable(),
  finalState: storedJsonObject.nullable(),
  error: stepError,
});

const stored1 = z.strictObject({
  id: storedUuid,
  tenantId: storedUuid,
  name: z.string().nullable(),
  onFailure: z.enum(failurePolicies),
  createdBy: principal,
  scopes: z.array(scope).nullable(),
  requestId: z.string(),
  createdAt: epochMs,
  finishedAt: epochMs.nullable(),
  status: z.enum(planStatuses),
  steps: z.array(step),
  ending: z.enum(['cancel', 'rollback', 'stop']).nullable(),
  finished: count,
  wakeAt: epochMs.nullable(),
});
const stored = stored1.extend({ cognition: cognition.nullable() });
type StoredPlan = PlanFixed & PlanLive;

const toStored = ({ fixed, live }: PlanContext): StoredContext => ({
  fixed: fixed as unknown as JsonObject,
  live: live as unknown as JsonObject,
});

/** A stored context in its two parts. */
function partsOf({
  finishedAt,
  status,
  steps,
  ending,
  finished,
  wakeAt,
  cognition,
  ...fixed
}: StoredPlan): PlanContext {
  return { fixed, live: { finishedAt, status, steps, ending, finished, wakeAt, cognition } };
}

/** The context of a row as it stands, without validation, for lists. */
export const planOfRow = ({ context }: { context: JsonObject }): PlanContext =>
  partsOf(context as unknown as StoredPlan);

function stepNote(
  { live: { steps } }: PlanContext,
  { commandId, stepId }: { commandId: Uuid; stepId?: string },
): JsonObject {
  const found = steps.find(
    (one) => one.id === stepId || one.commandId === commandId || one.undo?.commandId === commandId,
  );
  return { command_id: commandId, ...(found && { step_id: found.id, step_status: found.status }) };
}

/** Records only the change; parameters are stored in the context. */
function note(event: PlanEvent, after: PlanContext): JsonObject {
  const status = { status: after.live.status };
  switch (event.type) {
    case 'create':
      return { ...status, name: after.fixed.name, steps: after.live.steps.length, on_failure: after.fixed.onFailure };
    case 'cancel':
      return { ...status, ...(event.reason !== undefined && { reason: event.reason }) };
    case 'command.moved':
      return { ...status, ...stepNote(after, event), word: event.status, verification: event.verification };
    case 'step.refused':
      return { ...status, ...stepNote(after, event), code: event.error.code };
    case 'step.held':
      return { ...status, ...stepNote(after, event), held_s: event.forMs / 1_000 };
    case 'node.proposed':
      return { ...status, step_id: event.node.id, device_id: event.node.deviceId, action: event.node.action };
    case 'cognition.suspended':
      return { ...status, reason: event.reason, for_s: event.forMs / 1_000 };
    case 'cognition.completed':
      return { ...status, summary: event.summary };
    case 'cognition.failed':
      return { ...status, code: event.error.code };
    default:
      return status;
  }
}

function journal(
  event: MachineEvent,
  before: Snapshot<PlanContext> | null,
  after: Snapshot<PlanContext>,
): JournalNote | null {
  return before === after ? null : { data: note(event as PlanEvent, after.context) };
}

/** The plan's commands that were sent to their devices. */
const expectsMessagesFrom = ({ context }: Snapshot<PlanContext>): ActorRef[] =>
  context.live.steps.flatMap(({ ask, status, undo, commandId }): ActorRef[] => {
    const id = ask === 'made' && status !== 'awaiting_confirmation' ? (undo?.commandId ?? commandId) : null;
    return id === null ? [] : [{ kind: 'command', id }];
  });

/** A plan's context for administrators. */
function toAdminView({ fixed, live }: PlanContext): JsonObject {
  const { kind, id, key, via } = fixed.createdBy;
  return {
    id: fixed.id,
    tenant_id: fixed.tenantId,
    name: fixed.name,
    on_failure: fixed.onFailure,
    created_by: { kind, id, ...(via !== undefined && { via }), ...(key !== undefined && { key }) },
    scopes: fixed.scopes && [...fixed.scopes],
    request_id: fixed.requestId,
    created_at: iso(fixed.createdAt),
    finished_at: live.finishedAt === null ? null : iso(live.finishedAt),
    status: live.status,
    ending: live.ending,
    wake_at: live.wakeAt === null ? null : iso(live.wakeAt),
    cognition: live.cognition && cognitionView(live.cognition),
    steps: live.steps.map((one) => ({
      ...{
        id: one.id,
        device_id: one.deviceId,
        action: one.action,
        params: one.params,
        depends_on: [...one.dependsOn],
      },
      compensation: one.compensation && { ...one.compensation },
      ...{ timeout_s: one.timeoutS, status: one.status, command_id: one.commandId, ask: one.ask },
      ...{ parked: one.parked, finished: one.finished },
      undo: one.undo && { command_id: one.undo.commandId, tries: one.undo.tries },
      error: one.error && { ...one.error },
      undo_error: one.undoError && { ...one.undoError },
    })),
  };
}

const cognitionView = (one: PlanCognition): JsonObject => ({
  ...{ kind: one.kind, home_id: one.homeId, device_id: one.deviceId, text: one.text, note: one.note },
  action: one.action && { ...one.action },
  ...{ proposal_id: one.proposalId, phase: one.phase, due_at: one.dueAt === null ? null : iso(one.dueAt) },
  ...{ summary: one.summary, final_state: one.finalState, error: one.error && { ...one.error } },
});

export const planDefinition: MachineDefinition<PlanContext> = {
  kind: 'plan',
  version: 2,
  machine: planMachine,
  tenantOf: (context) => context.fixed.tenantId,
  toStored,
  fromStored: (json) => partsOf(stored.parse(json) as StoredPlan),
  columns: ({ context }) => ({
    status: context.live.status,
    over: isFinalPlanStatus(context.live.status),
    thought: isPlannerActive(context),
    created_at: context.fixed.createdAt,
  }),
  journal,
  canPassivate: isPlanFinal,
  expectsMessagesFrom,
  isTransient: () => false,
  toAdminView,
};

/** Version 1, without a planner. */
export const planDefinitionV1: MachineDefinition<PlanContext> = {
  ...planDefinition,
  version: 1,
  machine: planMachineV1,
  toStored(context) {
    const { fixed, live } = toStored(context);
    const { cognition: _, ...rest } = live;
    return { fixed, live: rest };
  },
  fromStored: (json) => partsOf({ ...stored1.parse(json), cognition: null } as StoredPlan),
};
