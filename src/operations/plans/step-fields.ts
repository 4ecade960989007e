import { z } from 'zod';
import type { ProposedStep } from '../../domain/proposal.ts';
import { shownParams } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';

/** Fields of a step as it was requested, in the steps of plans and of proposals. */
export const stepFields = {
  id: z.string(),
  device_id: uuid,
  action: z.string(),
  params: shownParams,
  depends_on: z.array(z.string()),
  compensation: z.object({ action: z.string(), params: shownParams }).optional(),
  timeout_s: z.int().optional(),
};

const stepObject = z.object(stepFields);

/** The fields without a value are left out. */
export const stepFieldsOf = (one: ProposedStep): z.infer<typeof stepObject> => ({
  ...{ id: one.id, device_id: one.deviceId, action: one.action, params: one.params, depends_on: [...one.dependsOn] },
  ...(one.compensation !== null && { compensation: { ...one.compensation } }),
  ...(one.timeoutS !== null && { timeout_s: one.timeoutS }),
});
