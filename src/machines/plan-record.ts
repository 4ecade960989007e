import { z } from 'zod';
import { contextKinds, plannerPhases } from '../domain/cognition.ts';
import { iso } from '../domain/iso-time.ts';
import { memoryKinds, type ShapingMemory } from '../domain/memory.ts';
import { failurePolicies, isFinalPlanStatus, planStatuses, stepStatuses } from '../domain/plan.ts';
import { isScope, type Scope } from '../domain/scopes.ts';
import { uuid } from '../domain/uuid-schema.ts';
import type { JsonObject, Uuid } from '../domain/values.ts';
import type { PlanColumns } from './actor-columns.ts';
import {
  assertEmpty,
  causeOf,
  type JournalNote,
  type MachineDefinition,
  type MachineEvent,
  type Snapshot,
} from './definition.ts';
import type { ActorRef } from './outputs.ts';
import { type PlanDelay, planMachine, planMachineV1 } from './plan.ts';
import type { PlanCognition, PlanContext, PlanEvent, PlanFixed, PlanLive } from './plan-types.ts';
import { isPlannerActive } from './plan-update.ts';
import { count, epochMs, list, principal, storedForm, storedJsonObject } from './stored-schemas.ts';

// Stored form, journal entries and admin view of a plan.

export const isPlanFinal = ({ context }: Pick<Snapshot<PlanContext>, 'context'>): boolean =>
  isFinalPlanStatus(context.live.status);

const stepError = z.strictObject({ code: z.string(), detail: z.string() }).nullable();

const step = z.strictObject({
  id: z.string(),
  deviceId: uuid,
  action: z.string(),
  params: storedJsonObject,
  dependsOn: list(z.string()),
  compensation: z.strictObject({ action: z.string(), params: storedJsonObject }).nullable(),
  timeoutS: count.nullable(),
  status: z.enum(stepStatuses),
  commandId: uuid.nullable(),
  ask: z.enum(['asked', 'held', 'made', 'pausing']).nullable(),
  parked: z.boolean(),
  acted: z.boolean(),
  finished: count.nullable(),
  undo: z.strictObject({ commandId: uuid, tries: count }).nullable(),
  error: stepError,
  undoError: stepError,
  sealedParams: z.string().nullable().exactOptional(),
  sealedCompensation: z.string().nullable().exactOptional(),
});

/** A scope, which was validated with the token. */
const scope = z.custom<Scope>((given) => typeof given === 'string' && isScope(given));

const shapingMemory = z.strictObject({
  id: uuid,
  kind: z.enum(memoryKinds),
  subject: z.string().nullable(),
  source: z.string(),
  adoptedBy: uuid.nullable(),
  steps: list(z.string()),
});

const cognition = z.strictObject({
  kind: z.enum(contextKinds),
  homeId: uuid.nullable(),
  deviceId: uuid.nullable(),
  text: z.string().nullable(),
  action: z.strictObject({ action: z.string(), params: storedJsonObject }).nullable(),
  note: z.string().nullable(),
  proposalId: uuid.nullable(),
  phase: z.enum(plannerPhases),
  dueAt: epochMs.nullable(),
  armedFor: epochMs.nullable(),
  overdue: z.boolean(),
  summary: z.string().nullable(),
  finalState: storedJsonObject.nullable(),
  suspensionReason: z.string().exactOptional(),
  error: stepError,
  memories: list(shapingMemory).exactOptional(),
});

const fixed = {
  id: uuid,
  tenantId: uuid,
  name: z.string().nullable(),
  onFailure: z.enum(failurePolicies),
  createdBy: principal,
  scopes: list(scope).nullable(),
  requestId: z.string(),
  createdAt: epochMs,
};

/** Members that all versions share. Version 1 has no planner. */
const commonLive = {
  finishedAt: epochMs.nullable(),
  status: z.enum(planStatuses),
  steps: list(step),
  ending: z.enum(['cancel', 'rollback', 'stop']).nullable(),
  finished: count,
  wakeAt: epochMs.nullable(),
};

const stored = storedForm<PlanContext>()(fixed, { ...commonLive, cognition: cognition.nullable() });
const storedV1 = storedForm<PlanContextV1>()(fixed, commonLive);

interface PlanContextV1 {
  fixed: PlanFixed;
  live: Omit<PlanLive, 'cognition'>;
}

/** The context of a row as it stands, without validation, for lists. */
export const planOfRow = ({ context }: { context: JsonObject }): PlanContext => stored.divide(context);

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
function note(event: PlanEvent | { type: PlanDelay }, after: PlanContext): JsonObject {
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
    case 'tenant.suspended':
    case 'tenant.resumed':
    case 'cognition.excused':
    case 'cognition.unheard':
    case 'wakeUp':
    case 'patience':
      return status;
    default:
      event satisfies never;
      return status;
  }
}

function journal(
  event: MachineEvent,
  before: Snapshot<PlanContext> | null,
  after: Snapshot<PlanContext>,
): JournalNote | null {
  return before === after ? null : { data: note(causeOf<PlanEvent, PlanDelay>(event), after.context) };
}

/** The plan's commands that were sent to their devices. */
const expectsMessagesFrom = ({ context }: Snapshot<PlanContext>): ActorRef[] =>
  context.live.steps.flatMap(({ ask, status, undo, commandId }): ActorRef[] => {
    const id = ask === 'made' && status !== 'awaiting_confirmation' ? (undo?.commandId ?? commandId) : null;
    return id === null ? [] : [{ kind: 'command', id }];
  });

/** A plan's context for administrators. */
function toAdminView({ fixed, live }: PlanContext): JsonObject {
  const { id, tenantId, name, onFailure, createdBy, scopes, requestId, createdAt, ...otherFixed } = fixed;
  // `finished` is not shown, because it follows from the steps.
  const { finishedAt, status, steps, ending, finished: _, wakeAt, cognition, ...otherLive } = live;
  assertEmpty(otherFixed, otherLive);
  const { kind, id: creator, key, via } = createdBy;
  return {
    id,
    tenant_id: tenantId,
    name,
    on_failure: onFailure,
    created_by: { kind, id: creator, ...(via !== undefined && { via }), ...(key !== undefined && { key }) },
    scopes: scopes && [...scopes],
    request_id: requestId,
    created_at: iso(createdAt),
    finished_at: finishedAt === null ? null : iso(finishedAt),
    status,
    ending,
    wake_at: wakeAt === null ? null : iso(wakeAt),
    cognition: cognition && cognitionView(cognition),
    steps: steps.map((one) => ({
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
  ...(one.suspensionReason !== undefined && { suspension_reason: one.suspensionReason }),
  ...(one.memories !== undefined && { memories: one.memories.map(memoryView) }),
});

const memoryView = ({ id, kind, subject, source, adoptedBy, steps }: ShapingMemory): JsonObject => ({
  ...{ id, kind, subject, source, adopted_by: adoptedBy, steps: [...steps] },
});

export const planDefinition: MachineDefinition<PlanContext, PlanColumns> = {
  kind: 'plan',
  version: 2,
  machine: planMachine,
  tenantOf: (context) => context.fixed.tenantId,
  toStored: stored.write,
  fromStored: stored.read,
  storedSchema: stored.schema,
  columns: ({ context }): PlanColumns => ({
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
export const planDefinitionV1: MachineDefinition<PlanContext, PlanColumns> = {
  ...planDefinition,
  version: 1,
  machine: planMachineV1,
  toStored: ({ fixed, live: { cognition: _, ...live } }) => storedV1.write({ fixed, live }),
  storedSchema: storedV1.schema,
  fromStored(json) {
    const { fixed, live } = storedV1.read(json);
    return { fixed, live: { ...live, cognition: null } };
  },
};
