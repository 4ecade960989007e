import { compensationFor } from './compensation.ts';
import { schemaError } from './json-schema.ts';
import type { ActionCall, PlannerDecision, PlannerInput } from './planner-types.ts';
import { finalStateOf, summaryOf } from './summary.ts';

/** Plans a requested action as it is, even if the device is already in the expected state. */
export function decideDirectAction(view: PlannerInput, { action, params }: ActionCall): PlannerDecision {
  const { context, devices, refusals } = view;
  const refused = refusals[0];
  if (refused !== undefined) return { code: refused.code, failed: refused.detail };
  if (context.nodes.length > 0) return { done: summaryOf(view), finalState: finalStateOf(view) };
  const device = devices.find(({ id }) => id === context.deviceId);
  const tool = device?.tools.get(action);
  if (device === undefined) return { code: 'NO_SUCH_DEVICE', failed: 'The device was not found.' };
  if (tool === undefined)
    return { code: 'ACTION_NOT_IN_MANIFEST', failed: `The device does not offer '${action.slice(0, 80)}'.` };
  const error = schemaError(tool.params, params);
  if (error !== null) return { code: 'PARAMS_INVALID', failed: error };
  const requested = { action, params };
  const step = {
    ...requested,
    id: 'requested-action',
    deviceId: device.id,
    dependsOn: [],
    compensation: compensationFor(device, requested),
    memoryIds: [],
  };
  return { steps: [step], because: '' };
}
