import { randomUUID } from 'node:crypto';
import type { AddressedEvent } from '../../actors/contract.ts';
import { jsonEqual } from '../../domain/json/value.ts';
import { done, type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import { atMost } from '../../domain/roles.ts';
import { scopesOfKey } from '../../domain/scopes.ts';
import type { Milliseconds, Principal, Uuid } from '../../domain/values.ts';
import { maskParams } from '../../domain/write-only-params.ts';
import type { CommandFixed } from '../../machines/command-types.ts';
import type { ResolvableOutput } from '../../machines/outputs.ts';
import type { PlanContext, PlanEvent, PlanFixed, PlanStep } from '../../machines/plan-types.ts';
import type { ApiKey, User } from '../../store/contract.ts';
import { callerRefusal } from '../caller-authorization.ts';
import { requestEvent } from '../commands/command-request.ts';
import { commandDevice } from '../commands/commands.ts';
import type { CommittedTenant, GatewayServices, Target } from '../commands/gateway-facts.ts';
import type { RequestedRelease } from '../firmware/firmware-facts.ts';
import type { Caller, Services } from '../operation.ts';
import { openStepParams } from './sealed-steps.ts';

// The command of a requested plan step, built from facts that are loaded already.

/** Retry delay for a step that a flag holds back. */
const FLAG_RETRY_MS: Milliseconds = 5_000;
/** Retry delay while the tenant is suspended; a fallback, since resuming the tenant wakes its plans. */
const SUSPENSION_RETRY_MS: Milliseconds = 60_000;

/** A step whose command was requested by its plan. */
export interface RequestedStep {
  context: PlanContext;
  step: PlanStep;
  commandId: Uuid;
}

/** Facts for the gateway. */
export interface StepFacts {
  tenant: CommittedTenant;
  target: Outcome<Target>;
  release: RequestedRelease | null;
  /**
   * The command of the step to be undone; the command's machine checks whether its confirmation covers the
   * compensation.
   */
  approval: CommandFixed | null;
}

type StepRequest = Extract<ResolvableOutput, { type: 'plan.ask' }>;

/** The step, or null if the plan no longer waits for this command. */
export function findRequestedStep(
  context: PlanContext | undefined,
  { stepId, commandId }: StepRequest,
): RequestedStep | null {
  const step = context?.live.steps.find(({ id }) => id === stepId);
  const isWaiting = step?.ask === 'asked' && (step.undo ?? step).commandId === commandId;
  return context && isWaiting ? { context, step, commandId } : null;
}

/** The step's action, or its compensation while it is undone. */
export const effectiveAction = ({ step }: RequestedStep) => (step.undo === null ? step : (step.compensation ?? step));

export const planEndedRefusal = ({ context, step }: RequestedStep): Refusal | null =>
  step.undo === null && context.live.ending !== null
    ? { code: 'CONFLICT', detail: 'The plan had ended before the step began.' }
    : null;

/** The event for the plan that the step was refused and has no command. */
export const stepRefusal = (
  { clock }: Pick<Services, 'clock'>,
  { context, step, commandId }: RequestedStep,
  { code, detail }: Refusal,
): AddressedEvent => {
  const event: PlanEvent = {
    ...{ type: 'step.refused', at: clock.now() },
    ...{ stepId: step.id, commandId, error: { code, detail } },
  };
  return { to: { kind: 'plan', id: context.fixed.id }, event };
};

/**
 * The event that creates the step's command, or the refusal event for the plan. Synchronous, so that all facts are of
 * the same moment.
 */
export function commandFor(
  services: GatewayServices & Pick<Services, 'clock' | 'newId' | 'open' | 'seal'>,
  creator: Caller,
  requested: RequestedStep,
  { tenant, target, release, approval }: StepFacts,
): AddressedEvent {
  const { context, step, commandId } = requested;
  const heldMs = holdTime(services, tenant.snapshot.value === 'suspended');
  if (heldMs !== null) {
    const event: PlanEvent = {
      ...{ type: 'step.held', at: services.clock.now() },
      ...{ stepId: step.id, commandId, forMs: heldMs },
    };
    return { to: { kind: 'plan', id: context.fixed.id }, event };
  }
  if (!target.ok) return stepRefusal(services, requested, target.refusal);
  const { action } = effectiveAction(requested);
  const given = openStepParams(services, context.fixed.id, step);
  if (given === null) return stepRefusal(services, requested, UNREADABLE);
  const { params, maskedParams } = given;
  const { manifest } = target.value;
  // What the manifest no longer marks, its expected state may show. An unknown action has none, and the gateway refuses it.
  const isKnown = manifest?.capabilities.some((one) => one.action === action) === true;
  if (isKnown && maskedParams !== undefined && !jsonEqual(maskParams(manifest, action, params), maskedParams))
    return stepRefusal(services, requested, MARKS_CHANGED);
  const ids = {
    device_id: step.deviceId,
    command_id: commandId,
    message_id: services.newId(),
    // Never handed out: a plan's commands are confirmed from the inbox.
    dry_run_token: randomUUID(),
  };
  const undo = step.undo === null ? step.compensation : null;
  // The parameters may have been marked since the plan was stored.
  const compensation = undo && { ...undo, params: maskParams(manifest, undo.action, undo.params) };
  const input = { action, params, ...(step.timeoutS !== null && { timeout_s: step.timeoutS }) };
  const plan = { id: context.fixed.id, stepId: step.id, compensation };
  const request = {
    tenant,
    target: target.value,
    input,
    ids,
    release,
    plan,
    ...(approval && { approval }),
    ...(maskedParams && { maskedParams }),
  };
  const failed = { code: 'GATEWAY_ERROR', detail: 'The safety gateway failed; nothing was sent.' } as const;
  return {
    to: { kind: 'command', id: commandId },
    event: requestEvent(services, creator, request),
    create: true,
    fallback: stepRefusal(services, requested, failed),
  };
}

const UNREADABLE: Refusal = {
  code: 'GATEWAY_ERROR',
  detail: 'The write-only parameters of the step cannot be decrypted with the keys of the service.',
};

const MARKS_CHANGED: Refusal = {
  code: 'PARAMS_INVALID',
  detail: 'The manifest has changed which parameters are write-only since the plan was created.',
};

function holdTime({ flags }: Pick<Services, 'flags'>, suspended: boolean): Milliseconds | null {
  if (suspended) return SUSPENSION_RETRY_MS;
  const { maintenance_mode, commands_disabled } = flags();
  return maintenance_mode || commands_disabled ? FLAG_RETRY_MS : null;
}

/**
 * The creator with their current permissions, checked as if they requested the command now. `key`: the API key they
 * used.
 */
export function authorizeCreator(
  { createdBy, scopes, requestId, tenantId }: Pick<PlanFixed, 'createdBy' | 'scopes' | 'requestId' | 'tenantId'>,
  user: User | null,
  key: ApiKey | null,
): Outcome<Caller> {
  if (user === null || (createdBy.key !== undefined && key?.tenantId !== tenantId)) {
    return refuse('UNAUTHENTICATED', "The credential of the plan's creator is no longer valid.");
  }
  // A restricted key cannot create a plan.
  if (key !== null && key.restriction !== null)
    return refuse('KEY_RESTRICTED', 'Plans are not for keys that are restricted.');
  if (user.tenantId !== tenantId) return refuse('FORBIDDEN_ROLE', "The plan's creator has left the tenant.");
  const principal: Principal = { ...createdBy, requestId, operation: 'createPlan' };
  const caller: Caller = {
    ...{ user, principal, tenantId, requestId, platformAdmin: false, token: null, endsAt: null },
    role: key === null ? user.role : atMost(user.role, key.roleCap),
    scopes: key === null ? scopes : scopesOfKey(key.scopes),
  };
  return callerRefusal(commandDevice, caller) ?? done(caller);
}
