import { z } from 'zod';
import { failureWays, type PlanStatus, planStatuses, stepStatuses } from '../domain/plan.ts';
import { isScope, type Scope } from '../domain/scopes.ts';
import type { JsonObject, Uuid } from '../domain/values.ts';
import type { JournalNote, MachineDefinition, MachineEvent, Snapshot } from './definition.ts';
import { planMachine } from './plan.ts';
import type { PlanContext, PlanEvent } from './plan-types.ts';
import { count, epochMs, iso, jsonObject, principal, uuid } from './stored.ts';

// How a plan is kept, journaled and shown.

const over: ReadonlySet<PlanStatus> = new Set(['succeeded', 'failed', 'rolled_back', 'rollback_failed', 'cancelled']);

export const isOver = ({ context }: Pick<Snapshot<PlanContext>, 'context'>): boolean => over.has(context.status);

const stepError = z.strictObject({ code: z.string(), detail: z.string() }).nullable();

const step = z.strictObject({
  id: z.string(),
  deviceId: uuid,
  action: z.string(),
  params: jsonObject,
  dependsOn: z.array(z.string()),
  compensation: z.strictObject({ action: z.string(), params: jsonObject }).nullable(),
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
});

/** It was checked when the token was. */
const scope = z.custom<Scope>((given) => typeof given === 'string' && isScope(given));

const stored = z.strictObject({
  id: uuid,
  tenantId: uuid,
  name: z.string().nullable(),
  onFailure: z.enum(failureWays),
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

function stepNote({ steps }: PlanContext, { commandId, stepId }: { commandId: Uuid; stepId?: string }): JsonObject {
  const found = steps.find(
    (one) => one.id === stepId || one.commandId === commandId || one.undo?.commandId === commandId,
  );
  return { command_id: commandId, ...(found && { step_id: found.id, step_status: found.status }) };
}

/** Parameters are kept in the context; here stands only what moved. */
function note(event: PlanEvent, after: PlanContext): JsonObject {
  const status = { status: after.status };
  switch (event.type) {
    case 'create':
      return { ...status, name: after.name, steps: after.steps.length, on_failure: after.onFailure };
    case 'cancel':
      return { ...status, ...(event.reason !== undefined && { reason: event.reason }) };
    case 'command.moved':
      return { ...status, ...stepNote(after, event), word: event.status, verification: event.verification };
    case 'step.refused':
      return { ...status, ...stepNote(after, event), code: event.error.code };
    case 'step.held':
      return { ...status, ...stepNote(after, event), held_s: event.forMs / 1_000 };
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

/** A plan's context as an administrator may see it. */
function visible(context: PlanContext): JsonObject {
  const { kind, id, key, via } = context.createdBy;
  return {
    id: context.id,
    tenant_id: context.tenantId,
    name: context.name,
    on_failure: context.onFailure,
    created_by: { kind, id, ...(via !== undefined && { via }), ...(key !== undefined && { key }) },
    scopes: context.scopes && [...context.scopes],
    request_id: context.requestId,
    created_at: iso(context.createdAt),
    finished_at: context.finishedAt === null ? null : iso(context.finishedAt),
    status: context.status,
    ending: context.ending,
    wake_at: context.wakeAt === null ? null : iso(context.wakeAt),
    steps: context.steps.map((one) => ({
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

export const planDefinition: MachineDefinition<PlanContext> = {
  kind: 'plan',
  version: 1,
  machine: planMachine,
  tenantOf: (context) => context.tenantId,
  toStored: (context) => ({ ...context }) as unknown as JsonObject,
  fromStored: (json) => stored.parse(json) as PlanContext,
  columns: ({ context }) => ({
    status: context.status,
    over: over.has(context.status),
    created_at: context.createdAt,
  }),
  journal,
  rests: isOver,
  isSoft: () => false,
  visible,
};
