import { type Decision, type Planner, titleOf, type View } from '../model.ts';
import { obey } from '../obey.ts';
import { finalStateOf, summaryOf } from '../summary.ts';
import { customOf } from './customs.ts';
import { draw, shown } from './graph.ts';
import { type Instruction, type Named, type Understood, understand } from './instructions.ts';
import { routineOf } from './memories.ts';
import { callsOf } from './thresholds.ts';

/** Plans by rules alone: the same words about the same world are always the same plan. */
export const rules: Planner = {
  name: 'rules',
  thinksForS: 0,
  next: async (view) => decide(view),
};

/**
 * What is asked is planned anew each time, and what the context has of it already is left out: so nothing is forgotten
 * where a plan was cut off in the middle, and the end is reached when nothing is left.
 */
export function decide(view: View): Decision {
  const { context, refusals } = view;
  if (context.act !== null) return obey(view, context.act);
  const refused = refusals[0];
  // The same view would lead to the same step again.
  if (refused !== undefined) {
    return { code: refused.code, failed: `The step ${refused.step.action} was refused: ${refused.detail}` };
  }
  if (context.kind === 'observation') return observe(view);
  const decision = pursue(view);
  const over = context.nodes.length > 0 && !('steps' in decision);
  return over ? { done: summaryOf(view), finalState: finalStateOf(view) } : decision;
}

/** A goal, or one for a device: then that device is all there is. */
function pursue(view: View): Decision {
  const { context, memories } = view;
  const devices = context.deviceId === null ? view.devices : view.devices.filter(({ id }) => id === context.deviceId);
  if (devices.length === 0) return { code: 'NO_SUCH_DEVICE', failed: 'There are no devices here.' };
  const understood = understand(context.text, namedIn(view));
  if (!('instructions' in understood)) return notUnderstood(understood);
  if (understood.instructions.length === 0) return notUnderstood({ unclear: context.text });
  // What is said to one device is about it, whatever else the words name.
  const instructions =
    context.deviceId === null
      ? understood.instructions
      : understood.instructions.map((one) => ({ ...one, target: '', beside: [] }));
  return drawn(instructions, { ...view, devices, memories }, 'Everything is so already.');
}

function drawn(instructions: readonly Instruction[], view: View, nothing: string, because = ''): Decision {
  const graph = draw(instructions, view, view.context.nodes);
  if ('impossible' in graph) return { code: graph.code, failed: graph.impossible };
  const away = graph.leftOut.map((device) => shown(titleOf(device))).slice(0, 10);
  const left = away.length === 0 ? '' : ` Left out, because not connected: ${away.join(', ')}.`;
  const [first, ...more] = graph.steps;
  if (first === undefined) {
    const why = view.context.nodes.length > 0 ? because : `${because} ${nothing}`;
    return { done: `${why}${left}`.trim(), finalState: {} };
  }
  return { steps: [first, ...more], because: `${because}${left}`.trim() };
}

const notUnderstood = (why: Exclude<Understood, { instructions: unknown }>): Decision =>
  'endless' in why
    ? { code: 'GOAL_TOO_LONG', failed: 'That comes to more sentences than the rules read for a goal.' }
    : { code: 'GOAL_NOT_UNDERSTOOD', failed: `The rules do not understand "${shown(why.unclear)}".` };

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

function observe(view: View): Decision {
  const { context, devices } = view;
  const by = devices.find(({ id }) => id === context.deviceId) ?? null;
  const calls = callsOf(context.data, by, view);
  if (calls.length === 0) return { done: 'Nothing that was measured calls for anything.', finalState: {} };
  const because = calls.map((call) => call.because).join(' ');
  const instructions: Instruction[] = [];
  for (const { text, lenient } of calls) {
    const understood = understand(text, namedIn(view));
    if (!('instructions' in understood)) return notUnderstood(understood);
    instructions.push(...understood.instructions.map((one) => (lenient ? { ...one, lenient } : one)));
  }
  return drawn(instructions, view, 'There is nothing to do it with, or it is done.', because);
}
