import { z } from 'zod';
import { failurePolicySchema } from '../../domain/enum-schemas.ts';
import { jsonBytes } from '../../domain/json/value.ts';
import { MAX_PARAMS_BYTES } from '../../domain/param-schema.ts';
import { graphErrors, MAX_STEPS } from '../../domain/plan.ts';
import { jsonObject, requestedActionName, timeoutSeconds } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { StepInput } from '../../machines/plan-types.ts';
import { displayName } from '../inputs.ts';

// Input schema of plans, shared by plans, intents and the sidecar.

const params = jsonObject.refine((given) => jsonBytes(given) <= MAX_PARAMS_BYTES, 'is too large').optional();

const stepId = z
  .string()
  .min(1)
  .max(64)
  .regex(/^\P{Cc}*$/u, 'must not contain control characters');

export const stepSchema = z
  .strictObject({
    id: stepId.meta({ description: 'Unique in the plan' }),
    device_id: uuid,
    action: requestedActionName,
    params,
    depends_on: z.array(stepId).max(MAX_STEPS).optional().meta({
      description: 'Steps that must succeed first; independent steps run concurrently',
    }),
    compensation: z
      .strictObject({ action: requestedActionName, params })
      .optional()
      .meta({ description: 'Action on the same device that undoes the step' }),
    timeout_s: timeoutSeconds
      .optional()
      .meta({ description: 'Seconds from the first write to the final acknowledgement of its command; default 30' }),
  })
  .meta({ id: 'PlanStepWish' });

export const planFields = {
  name: displayName.optional(),
  steps: z
    .array(stepSchema)
    .min(1)
    .max(MAX_STEPS)
    .superRefine((steps, context) => {
      const nodes = steps.map(({ id, depends_on = [] }) => ({ id, depends_on }));
      for (const { path, message } of graphErrors(nodes)) {
        const [, index, field] = path.split('.');
        context.addIssue({ code: 'custom', path: [Number(index), field as string], message });
      }
    }),
  on_failure: failurePolicySchema.optional().meta({
    description:
      'When a step fails, no further steps start. `rollback` (default) then runs the compensations of completed steps in reverse order; `stop` does not',
  }),
};
export type PlanInput = z.infer<z.ZodObject<typeof planFields>>;

export const toStepInput = (given: z.infer<typeof stepSchema>): StepInput => {
  const { id, device_id, action, params = {}, depends_on = [], compensation, timeout_s } = given;
  return {
    id,
    deviceId: device_id,
    action,
    params,
    dependsOn: [...new Set(depends_on)],
    compensation:
      compensation === undefined ? null : { action: compensation.action, params: compensation.params ?? {} },
    timeoutS: timeout_s ?? null,
  };
};

export const toStepInputs = ({ steps }: Pick<PlanInput, 'steps'>): StepInput[] => steps.map(toStepInput);
