import type { CommandStatus, VerificationStatus } from '../../src/domain/command.ts';
import type { OnFailure } from '../../src/domain/plan.ts';
import type { Output } from '../../src/machines/outputs.ts';
import { planDefinition } from '../../src/machines/plan-record.ts';
import type { PlanContext, PlanEvent, PlanStep, StepInput } from '../../src/machines/plan-types.ts';
import { Driven, type Step } from './machine-driver.ts';
import { DEVICE, ofType, requester, T0, TENANT, uuid } from './samples.ts';

export const PLAN = uuid(30);
export type Plan = Driven<PlanContext, PlanEvent>;
type On<Type extends PlanEvent['type']> = Extract<PlanEvent, { type: Type }>;

export const stepInput = (id: string, more: Partial<StepInput> = {}): StepInput => ({
  id,
  deviceId: DEVICE,
  action: 'turn_on',
  params: {},
  dependsOn: [],
  compensation: { action: 'turn_off', params: {} },
  timeoutS: null,
  ...more,
});

export const blankPlan = () => new Driven<PlanContext, PlanEvent>(planDefinition);

/** A goal for the planner. */
export const GOAL: NonNullable<On<'create'>['plan']['cognition']> = {
  ...{ kind: 'goal', homeId: null, deviceId: null, action: null, note: null, proposalId: null },
  text: 'Make it warm.',
};

export const create = (
  steps: readonly StepInput[],
  onFailure: OnFailure = 'rollback',
  cognition?: On<'create'>['plan']['cognition'],
): On<'create'> => ({
  type: 'create',
  at: T0,
  by: requester,
  plan: {
    id: PLAN,
    tenantId: TENANT,
    name: 'A plan',
    onFailure,
    createdBy: requester,
    scopes: null,
    requestId: 'request-1',
    steps,
    ...(cognition !== undefined && { cognition }),
  },
});

/** A plan with given steps, after its creation. */
export function planned(steps: readonly StepInput[], onFailure?: OnFailure): { plan: Plan; begun: Step } {
  const plan = blankPlan();
  return { plan, begun: plan.send(create(steps, onFailure)) };
}

export const stepIn = ({ context }: Plan, id: string): PlanStep => {
  const found = context.live.steps.find((step) => step.id === id);
  if (found === undefined) throw new Error(`no step ${id}`);
  return found;
};

/** The command that the step waits for. */
export const commandOf = (plan: Plan, id: string): string => {
  const { undo, commandId } = stepIn(plan, id);
  return undo?.commandId ?? commandId ?? '';
};

export const moved = (
  commandId: string,
  at: number,
  status: CommandStatus,
  more: Partial<On<'command.moved'>> = {},
): On<'command.moved'> => ({
  ...{ type: 'command.moved', at, commandId, status, critical: false, refusal: null },
  verification: status === 'succeeded' ? 'verified' : status === 'dispatched' ? 'pending' : 'unverifiable',
  ...more,
});

/** The command of the step reports this status. */
export const reportStatus = (
  plan: Plan,
  id: string,
  status: CommandStatus,
  {
    at = T0 + 1_000,
    verification,
    critical,
  }: { at?: number; verification?: VerificationStatus; critical?: boolean } = {},
): Step =>
  plan.send(
    moved(commandOf(plan, id), at, status, {
      ...(verification !== undefined && { verification }),
      ...(critical !== undefined && { critical }),
    }),
  );

export const requestedSteps = (outputs: readonly Output[]): string[] =>
  ofType(outputs, 'plan.ask').map(({ stepId }) => stepId);

export const statuses = (plan: Plan): Record<string, string> =>
  Object.fromEntries(plan.context.live.steps.map(({ id, status }) => [id, status]));

export const cancel = (at = T0 + 2_000) => ({ type: 'cancel', at, by: requester }) satisfies PlanEvent;
/** The message that withdraws the command of the step. */
export const withdrawn = (plan: Plan, id: string) => ({
  type: 'actor.tell',
  to: { kind: 'command', id: commandOf(plan, id) },
  event: { type: 'plan.withdrawn', planId: PLAN },
});
/** A flag delays the step. */
export const held = (plan: Plan, stepId: string, forMs = 5_000) =>
  plan.send({ type: 'step.held', at: T0 + 1, stepId, commandId: commandOf(plan, stepId), forMs });
/** The command of the step could not be created. */
export const refused = (plan: Plan, stepId: string, code = 'FORBIDDEN_ROLE', at = T0 + 1) =>
  plan.send({ type: 'step.refused', at, stepId, commandId: commandOf(plan, stepId), error: { code, detail: 'No.' } });

export const HOME = uuid(3);
/** A plan of the planner for its goal, and the step that created it. */
export function goal(onFailure?: OnFailure): { plan: Plan; begun: Step } {
  const plan = blankPlan();
  return { plan, begun: plan.send(create([], onFailure, { ...GOAL, homeId: HOME })) };
}
/** The planner ends its planning. */
export const complete = (plan: Plan, at = T0 + 5_000) =>
  plan.send({ type: 'cognition.completed', at, summary: 'It is warm.', finalState: { celsius: 21 } });
