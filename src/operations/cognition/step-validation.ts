import { errorText, fieldErrors } from '../../domain/field-errors.ts';
import { judge } from '../../domain/gateway.ts';
import { checkJson } from '../../domain/json/strict.ts';
import { jsonBytes, jsonEqual } from '../../domain/json/value.ts';
import type { Manifest } from '../../domain/manifest.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import { maskParams } from '../../domain/write-only-params.ts';
import type { StepInput } from '../../machines/plan-types.ts';
import {
  type GatewayServices,
  gatewayFacts,
  loadTarget,
  readTenant,
  type Target,
  type TargetServices,
} from '../commands/gateway-facts.ts';
import { findRequestedRelease } from '../firmware/firmware-facts.ts';
import { notFound } from '../inputs.ts';
import type { Caller, Services } from '../operation.ts';
import { stepSchema, toStepInput } from '../plans/plan-input.ts';
import { type ContextReach, inReach } from './world.ts';

// Validation of a step that the sidecar proposed (a node in `proto/`): untrusted input.

/** Total size of all steps of a context: the same as the limit of a request. */
const MAX_STEPS_BYTES = 256 * 1024;

export interface ProposedStepScope {
  reach: ContextReach;
  /** The caller whose permissions apply. */
  caller: Caller;
  steps: readonly StepInput[];
}

/** Services that validate a proposed step as the gateway would judge it. */
export type StepValidationServices = GatewayServices & TargetServices & Pick<Services, 'store'>;

/**
 * Refuses a step that is invalid, names a device out of reach, or would be refused by the gateway now. The gateway
 * judges it again when the step is to run, and that verdict counts. Flags are ignored here: they only delay a step.
 */
export async function validateProposedStep(
  services: StepValidationServices,
  node: Json,
  { reach, caller, steps }: ProposedStepScope,
): Promise<Outcome<StepInput>> {
  const json = checkJson(node);
  if (!json.ok) return refuse('VALIDATION_FAILED', `The node is ${json.reason}.`);
  const read = stepSchema.safeParse(node, { error: errorText });
  if (!read.success) {
    const [first] = fieldErrors(read.error.issues);
    return refuse('VALIDATION_FAILED', `${first?.path || 'node'}: ${first?.message}`);
  }
  const step = toStepInput(read.data);
  const bytes = [...steps, step].reduce(
    (sum, one) => sum + jsonBytes(one.params) + jsonBytes(one.compensation as Json),
    0,
  );
  if (bytes > MAX_STEPS_BYTES) return refuse('VALIDATION_FAILED', 'The steps of the context are too large in total.');
  const target = await loadTarget(services, caller, step.deviceId);
  if (!target.ok) return target;
  if (!inReach(reach, target.value.device.snapshot.context)) return notFound('device');
  for (const command of step.compensation === null ? [step] : [step, step.compensation]) {
    const refused =
      plannerParamsRefusal(target.value.manifest, command) ??
      (await gatewayRefusal(services, caller, target.value, command));
    if (refused !== null) return refused;
  }
  return done(step);
}

/** Null if no value is given for a `writeOnly` parameter: a planner neither sees nor sets one. */
export function plannerParamsRefusal(
  manifest: Manifest | null,
  { action, params }: { action: string; params: JsonObject },
): ReturnType<typeof refuse> | null {
  if (jsonEqual(maskParams(manifest, action, params), params)) return null;
  return refuse(
    'PARAMS_INVALID',
    `'${action}' has write-only parameters, which a planner cannot see or set. Command the device directly.`,
  );
}

async function gatewayRefusal(
  services: Pick<Services, 'actors' | 'artifacts' | 'flags' | 'store'>,
  caller: Caller,
  target: Target,
  { action, params }: { action: string; params: JsonObject },
): Promise<ReturnType<typeof refuse> | null> {
  const release = await findRequestedRelease(services, caller, { action, params });
  const tenant = await readTenant(services, caller);
  const facts = gatewayFacts(services, tenant, target, { action, params, dryRun: false, confirmed: false, release });
  const verdict = judge({ ...facts, flags: { maintenance_mode: false, commands_disabled: false } });
  return verdict.kind === 'refused' ? { ok: false, refusal: verdict.refusal } : null;
}
