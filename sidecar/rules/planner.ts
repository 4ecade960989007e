import { type Act, type Decision, type Device, type Planner, type Step, titleOf, type View } from '../model.ts';
import { misfit } from '../schema.ts';
import { finalStateOf, summaryOf } from '../summary.ts';
import { undoOf } from '../undo.ts';
import { customOf } from './customs.ts';
import { draw, shown } from './graph.ts';
import { type Instruction, type Named, understand } from './instructions.ts';
import { routineOf } from './memories.ts';
import { callsOf } from './thresholds.ts';
import { slugOf } from './words.ts';

/** Plans by rules alone: the same words about the same world are always the same plan. */
export const rules: Planner = {
  name: 'rules',
  thinksForS: 0,
  next: async (view) => decide(view),
};

export function decide(view: View): Decision {
  const { context, refusals } = view;
  const refused = refusals[0];
  // The same view would lead to the same step again.
  if (refused !== undefined) {
    return { code: refused.code, failed: `The step ${refused.step.action} was refused: ${refused.detail}` };
  }
  if (context.nodes.length > 0 && context.kind !== 'observation') {
    return { done: summaryOf(view), finalState: finalStateOf(view) };
  }
  if (context.kind === 'observation') return observe(view);
  return context.act === null ? pursue(view) : act(view, context.act);
}

/** A goal, or one for a device: then that device is all there is. */
function pursue(view: View): Decision {
  const { context, memories } = view;
  const devices = context.deviceId === null ? view.devices : view.devices.filter(({ id }) => id === context.deviceId);
  if (devices.length === 0) return { code: 'NO_SUCH_DEVICE', failed: 'There are no devices here.' };
  const understood = understand(context.text, namedIn(view));
  if ('unclear' in understood) return notUnderstood(understood.unclear);
  if (understood.instructions.length === 0) return notUnderstood(context.text);
  // What is said to one device is about it, whatever else the words name.
  const instructions =
    context.deviceId === null
      ? understood.instructions
      : understood.instructions.map((one) => ({ ...one, target: '' }));
  return drawn(instructions, { ...view, devices, memories }, 'Everything is so already.');
}

function drawn(instructions: readonly Instruction[], view: View, nothing: string, because = ''): Decision {
  const graph = draw(instructions, view);
  if ('impossible' in graph) return { code: graph.code, failed: graph.impossible };
  const away = graph.leftOut.map((device) => shown(titleOf(device))).slice(0, 10);
  const left = away.length === 0 ? '' : ` Left out, because not connected: ${away.join(', ')}.`;
  const [first, ...more] = graph.steps;
  if (first === undefined) return { done: `${because} ${nothing}${left}`.trim(), finalState: {} };
  return { steps: [first, ...more], because: `${because}${left}`.trim() };
}

const notUnderstood = (sentence: string): Decision => ({
  code: 'GOAL_NOT_UNDERSTOOD',
  failed: `The rules do not understand "${shown(sentence)}".`,
});

const namedIn =
  ({ memories }: View): Named =>
  (name) => {
    const asked = name.replace(/^(?:run|start|activate|execute|do|set) /, '').replace(/ (?:routine|scene|mode)$/, '');
    for (const one of new Set([name, asked])) {
      const routine = routineOf(one, memories);
      if (routine !== null) return { text: routine, lenient: false };
      const custom = customOf(one);
      if (custom !== null) return { text: custom, lenient: true };
    }
    return null;
  };

/** An action that was asked for as it is: nobody looks whether it is needed. */
function act({ context, devices }: View, { action, params }: Act): Decision {
  const device = devices.find(({ id }) => id === context.deviceId);
  const tool = device?.tools.get(action);
  if (device === undefined) return { code: 'NO_SUCH_DEVICE', failed: 'The device is not shown.' };
  if (tool === undefined) return { code: 'ACTION_NOT_IN_MANIFEST', failed: `The device cannot ${shown(action)}.` };
  const wrong = misfit(tool.params, params);
  if (wrong !== null) return { code: 'PARAMS_INVALID', failed: wrong };
  return { steps: [stepOf(device, { action, params })], because: '' };
}

const stepOf = (device: Device, asked: Act): Step => ({
  ...asked,
  id: `${slugOf(titleOf(device))}-${slugOf(asked.action)}`.slice(0, 60),
  deviceId: device.id,
  dependsOn: [],
  compensation: undoOf(device, asked),
});

function observe(view: View): Decision {
  const { context, devices } = view;
  if (context.nodes.length > 0) return { done: 'Proposed.', finalState: {} };
  const by = devices.find(({ id }) => id === context.deviceId) ?? null;
  const calls = callsOf(context.data, by, view);
  if (calls.length === 0) return { done: 'Nothing that was measured calls for anything.', finalState: {} };
  const because = calls.map((call) => call.because).join(' ');
  const instructions: Instruction[] = [];
  for (const { text, lenient } of calls) {
    const understood = understand(text, namedIn(view));
    if ('unclear' in understood) return notUnderstood(understood.unclear);
    instructions.push(...understood.instructions.map((one) => (lenient ? { ...one, lenient } : one)));
  }
  return drawn(instructions, view, 'There is nothing to do it with, or it is done.', because);
}
