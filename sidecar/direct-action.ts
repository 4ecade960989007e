import { compensationFor } from './compensation.ts';
import { schemaError } from './json-schema.ts';
import type { ActionCall, Decision, PlannerInput } from './planner-types.ts';
import { finalStateOf, summaryOf } from './summary.ts';

/** An action that was asked for as it is: nobody looks whether it is needed. */
export function decideDirectAction(view: PlannerInput, { action, params }: ActionCall): Decision {
  const { context, devices, refusals } = view;
  const refused = refusals[0];
  if (refused !== undefined) return { code: refused.code, failed: refused.detail };
  if (context.nodes.length > 0) return { done: summaryOf(view), finalState: finalStateOf(view) };
  const device = devices.find(({ id }) => id === context.deviceId);
  const tool = device?.tools.get(action);
  if (device === undefined) return { code: 'NO_SUCH_DEVICE', failed: 'The device is not shown.' };
  if (tool === undefined)
    return { code: 'ACTION_NOT_IN_MANIFEST', failed: `The device cannot ${action.slice(0, 80)}.` };
  const wrong = schemaError(tool.params, params);
  if (wrong !== null) return { code: 'PARAMS_INVALID', failed: wrong };
  const asked = { action, params };
  const step = {
    ...asked,
    id: 'asked',
    deviceId: device.id,
    dependsOn: [],
    compensation: compensationFor(device, asked),
  };
  return { steps: [step], because: '' };
}
