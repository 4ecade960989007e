import { randomUUID } from 'node:crypto';
import type { AddressedEvent } from '../../actors/contract.ts';
import { done, type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import { atMost } from '../../domain/roles.ts';
import { scopesOfKey } from '../../domain/scopes.ts';
import type { Milliseconds, Principal, Uuid } from '../../domain/values.ts';
import type { CommandContext } from '../../machines/command-types.ts';
import type { ResolvableOutput } from '../../machines/outputs.ts';
import type { PlanContext, PlanEvent, PlanStep } from '../../machines/plan-types.ts';
import type { FirmwareRelease } from '../../store/contract/firmware.ts';
import type { ApiKey, User } from '../../store/contract.ts';
import { requestEvent } from '../commands/command-request.ts';
import { commandDevice } from '../commands/commands.ts';
import type { CommittedTenant, GatewayServices, Target } from '../commands/gateway-facts.ts';
import type { Caller, Services } from '../operation.ts';
import { callerRefusal } from '../perform.ts';

// What a step that a plan asks for comes to, by facts that were found already.

/** How soon a step that a flag holds back is asked for again. */
const FLAG_RETRY_MS: Milliseconds = 5_000;
/** Of a suspended tenant's plan; it is woken by the tenant's return, and this is for when it was not told. */
const SUSPENSION_RETRY_MS: Milliseconds = 60_000;

/** A step whose command a plan waits for. */
export interface RequestedStep {
  context: PlanContext;
  step: PlanStep;
  commandId: Uuid;
}

/** What the gateway is to judge it by. */
export interface StepFacts {
  tenant: CommittedTenant;
  target: Outcome<Target>;
  release: FirmwareRelease | null;
  /** The command of the step that is to be undone: whether somebody confirmed it, and what that covered, is for the machine to see. */
  approval: CommandContext | null;
}

type StepRequest = Extract<ResolvableOutput, { type: 'plan.ask' }>;

/** Null where the plan waits for it no more. */
export function findRequestedStep(
  context: PlanContext | undefined,
  { stepId, commandId }: StepRequest,
): RequestedStep | null {
  const step = context?.steps.find(({ id }) => id === stepId);
  const waits = step?.ask === 'asked' && (step.undo ?? step).commandId === commandId;
  return context && waits ? { context, step, commandId } : null;
}

/** The action, or what undoes it. */
export const effectiveAction = ({ step }: RequestedStep) => (step.undo === null ? step : (step.compensation ?? step));

export const planEndedRefusal = ({ context, step }: RequestedStep): Refusal | null =>
  step.undo === null && context.ending !== null
    ? { code: 'CONFLICT', detail: 'The plan had ended before the step began.' }
    : null;

/** That there is no command, as its plan is told it. */
export const stepRefusal = (
  { clock }: Pick<Services, 'clock'>,
  { context, step, commandId }: RequestedStep,
  { code, detail }: Refusal,
): AddressedEvent => {
  const event: PlanEvent = {
    ...{ type: 'step.refused', at: clock.now() },
    ...{ stepId: step.id, commandId, error: { code, detail } },
  };
  return { to: { kind: 'plan', id: context.id }, event };
};

/** The command for the gateway, or why there is none. Nothing is waited for here: all of it is of one moment. */
export function commandFor(
  services: GatewayServices & Pick<Services, 'clock' | 'newId'>,
  creator: Caller,
  asked: RequestedStep,
  { tenant, target, release, approval }: StepFacts,
): AddressedEvent {
  const { context, step, commandId } = asked;
  const heldMs = holdTime(services, tenant.snapshot.value === 'suspended');
  if (heldMs !== null) {
    const event: PlanEvent = {
      ...{ type: 'step.held', at: services.clock.now() },
      ...{ stepId: step.id, commandId, forMs: heldMs },
    };
    return { to: { kind: 'plan', id: context.id }, event };
  }
  if (!target.ok) return stepRefusal(services, asked, target.refusal);
  const { action, params } = effectiveAction(asked);
  const planned = {
    device_id: step.deviceId,
    command_id: commandId,
    message_id: services.newId(),
    // Nobody gets it: a plan's commands are confirmed from the inbox.
    dry_run_token: randomUUID(),
  };
  const compensation = step.undo === null ? step.compensation : null;
  const wish = { action, params, ...(step.timeoutS !== null && { timeout_s: step.timeoutS }) };
  const plan = { id: context.id, stepId: step.id, compensation };
  const request = {
    tenant,
    target: target.value,
    input: wish,
    ids: planned,
    release,
    plan,
    ...(approval && { approval }),
  };
  const failed = { code: 'GATEWAY_ERROR', detail: 'The safety gateway failed; nothing was sent.' } as const;
  return {
    to: { kind: 'command', id: commandId },
    event: requestEvent(services, creator, request),
    create: true,
    fallback: stepRefusal(services, asked, failed),
  };
}

function holdTime({ flags }: Pick<Services, 'flags'>, suspended: boolean): Milliseconds | null {
  if (suspended) return SUSPENSION_RETRY_MS;
  const { maintenance_mode, commands_disabled } = flags();
  return maintenance_mode || commands_disabled ? FLAG_RETRY_MS : null;
}

/** The creator with what they may now; refused as if they asked for the command at this moment. `key`: the one they came with. */
export function authorizeCreator(
  { createdBy, scopes, requestId, tenantId }: Pick<PlanContext, 'createdBy' | 'scopes' | 'requestId' | 'tenantId'>,
  user: User | null,
  key: ApiKey | null,
): Outcome<Caller> {
  if (user === null || (createdBy.key !== undefined && key?.tenantId !== tenantId)) {
    return refuse('UNAUTHENTICATED', "The credential of the plan's creator is not valid any more.");
  }
  if (user.tenantId !== tenantId) return refuse('FORBIDDEN_ROLE', "The plan's creator has left the tenant.");
  const principal: Principal = { ...createdBy, requestId, operation: 'createPlan' };
  const caller: Caller = {
    ...{ user, principal, tenantId, requestId, platformAdmin: false, token: null, endsAt: null },
    role: key === null ? user.role : atMost(user.role, key.roleCap),
    scopes: key === null ? scopes : scopesOfKey(key.scopes),
  };
  return callerRefusal(commandDevice, caller) ?? done(caller);
}
