import type { Manifest } from '../../domain/manifest.ts';
import { SealBroken } from '../../domain/sealing.ts';
import type { JsonObject, Uuid } from '../../domain/values.ts';
import { maskParams, openParams, sealParams, stepParamsPlace } from '../../domain/write-only-params.ts';
import type { PlanStep, StepInput } from '../../machines/plan-types.ts';
import type { Services } from '../operation.ts';

// The `writeOnly` parameters of plan steps: sealed in the plan until the step, or its compensation, has a command.

/** The step as the plan stores it, by the current manifest of its device. */
export function sealStep(
  services: Pick<Services, 'seal'>,
  planId: Uuid,
  step: StepInput,
  manifest: Manifest | null,
): StepInput {
  const { id, action, compensation } = step;
  const params = maskParams(manifest, action, step.params);
  const undo = compensation && maskParams(manifest, compensation.action, compensation.params);
  const isSealed = params !== step.params;
  const isUndoSealed = compensation !== null && undo !== compensation.params;
  if (!isSealed && !isUndoSealed) return step;
  const sealed = (given: JsonObject, part: 'step' | 'compensation') =>
    sealParams(services, given, stepParamsPlace(planId, id, part));
  return {
    ...step,
    params,
    compensation: compensation && { ...compensation, params: undo as JsonObject },
    ...(isSealed && { sealedParams: sealed(step.params, 'step') }),
    ...(isUndoSealed && { sealedCompensation: sealed(compensation.params, 'compensation') }),
  };
}

/** Parameters for the command of a step or of its compensation. */
export interface StepParams {
  params: JsonObject;
  /** The parameters to store with the command; absent: as the manifest says now. */
  maskedParams?: JsonObject;
}

/** Null if they cannot be decrypted. */
export function openStepParams(services: Pick<Services, 'open'>, planId: Uuid, step: PlanStep): StepParams | null {
  const part = step.undo === null ? 'step' : 'compensation';
  const { params } = step.undo === null ? step : (step.compensation ?? step);
  const sealed = step.undo === null ? step.sealedParams : step.sealedCompensation;
  if (sealed === undefined) return { params };
  // They are dropped only after the last command that needs them.
  if (sealed === null) return null;
  try {
    return { params: openParams(services, sealed, stepParamsPlace(planId, step.id, part)), maskedParams: params };
  } catch (error) {
    if (error instanceof SealBroken) return null;
    throw error;
  }
}
