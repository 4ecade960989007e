import { decideDirectAction } from '../direct-action.ts';
import { type Decision, displayNameOf, type Planner, type PlannerInput } from '../planner-types.ts';
import { finalStateOf, summaryOf } from '../summary.ts';
import { builtInRoutineOf } from './built-in-routines.ts';
import { type Instruction, type ParseResult, parseInstructions, type RoutineLookup } from './instruction-parser.ts';
import { findRoutine } from './memories.ts';
import { reactionsTo } from './observation-rules.ts';
import { buildGraph, truncateName } from './step-graph.ts';

/** Plans by rules alone: the same words about the same world are always the same plan. */
export const rulesPlanner: Planner = {
  name: 'rules',
  timeoutS: 0,
  decide: async (view) => decide(view),
};

/**
 * What is asked is planned anew each time, and what the context has of it already is left out: so nothing is forgotten
 * where a plan was cut off in the middle, and the end is reached when nothing is left.
 */
export function decide(view: PlannerInput): Decision {
  const { context, refusals } = view;
  if (context.requestedAction !== null) return decideDirectAction(view, context.requestedAction);
  const refused = refusals[0];
  // The same view would lead to the same step again.
  if (refused !== undefined) {
    return { code: refused.code, failed: `The step ${refused.step.action} was refused: ${refused.detail}` };
  }
  if (context.kind === 'observation') return decideObservation(view);
  const decision = decideGoal(view);
  const over = context.nodes.length > 0 && !('steps' in decision);
  return over ? { done: summaryOf(view), finalState: finalStateOf(view) } : decision;
}

/** A goal, or one for a device: then that device is all there is. */
function decideGoal(view: PlannerInput): Decision {
  const { context, memories } = view;
  const devices = context.deviceId === null ? view.devices : view.devices.filter(({ id }) => id === context.deviceId);
  if (devices.length === 0) return { code: 'NO_SUCH_DEVICE', failed: 'There are no devices here.' };
  const understood = parseInstructions(context.text, routineLookupFor(view));
  if (!('instructions' in understood)) return notUnderstood(understood);
  if (understood.instructions.length === 0) return notUnderstood({ unclear: context.text });
  // What is said to one device is about it, whatever else the words name.
  const instructions =
    context.deviceId === null
      ? understood.instructions
      : understood.instructions.map((one) => ({ ...one, target: '', beside: [] }));
  return decisionFromGraph(instructions, { ...view, devices, memories }, 'Everything is so already.');
}

function decisionFromGraph(
  instructions: readonly Instruction[],
  view: PlannerInput,
  nothing: string,
  because = '',
): Decision {
  const graph = buildGraph(instructions, view, view.context.nodes);
  if ('impossible' in graph) return { code: graph.code, failed: graph.impossible };
  const away = graph.leftOut.map((device) => truncateName(displayNameOf(device))).slice(0, 10);
  const left = away.length === 0 ? '' : ` Left out, because not connected: ${away.join(', ')}.`;
  const [first, ...more] = graph.steps;
  if (first === undefined) {
    const why = view.context.nodes.length > 0 ? because : `${because} ${nothing}`;
    return { done: `${why}${left}`.trim(), finalState: {} };
  }
  return { steps: [first, ...more], because: `${because}${left}`.trim() };
}

const notUnderstood = (why: Exclude<ParseResult, { instructions: unknown }>): Decision =>
  'endless' in why
    ? { code: 'GOAL_TOO_LONG', failed: 'That comes to more sentences than the rules read for a goal.' }
    : { code: 'GOAL_NOT_UNDERSTOOD', failed: `The rules do not understand "${truncateName(why.unclear)}".` };

const routineLookupFor =
  ({ memories }: PlannerInput): RoutineLookup =>
  (name) => {
    const asked = name.replace(/^(?:run|start|activate|execute|do|set) /, '').replace(/ (?:routine|scene|mode)$/, '');
    for (const one of new Set([name, asked])) {
      const routine = findRoutine(one, memories);
      if (routine !== null) return { text: routine, lenient: false };
      const custom = builtInRoutineOf(one);
      if (custom !== null) return { text: custom, lenient: true };
    }
    return null;
  };

function decideObservation(view: PlannerInput): Decision {
  const { context, devices } = view;
  const by = devices.find(({ id }) => id === context.deviceId) ?? null;
  const calls = reactionsTo(context.data, by, view);
  if (calls.length === 0) return { done: 'Nothing that was measured calls for anything.', finalState: {} };
  const because = calls.map((call) => call.because).join(' ');
  const instructions: Instruction[] = [];
  for (const { text, lenient } of calls) {
    const understood = parseInstructions(text, routineLookupFor(view));
    if (!('instructions' in understood)) return notUnderstood(understood);
    instructions.push(...understood.instructions.map((one) => (lenient ? { ...one, lenient } : one)));
  }
  return decisionFromGraph(instructions, view, 'There is nothing to do it with, or it is done.', because);
}
