import { decideDirectAction } from '../direct-action.ts';
import { displayNameOf, type Planner, type PlannerDecision, type PlannerInput } from '../planner-types.ts';
import { finalStateOf, summaryOf } from '../summary.ts';
import { builtInRoutineOf } from './built-in-routines.ts';
import { type Instruction, type ParseResult, parseInstructions, type RoutineLookup } from './instruction-parser.ts';
import { findRoutine } from './memories.ts';
import { reactionsTo } from './observation-rules.ts';
import { buildGraph, truncateName } from './step-graph.ts';

/** The planner without a language model. Deterministic: the same text and the same world result in the same plan. */
export const rulesPlanner: Planner = {
  name: 'rules',
  timeoutS: 0,
  decide: async (view) => decide(view),
};

/**
 * Stateless: plans the complete goal each time and leaves out the steps that the context already has. So an interrupted
 * plan continues without loss, and the context is complete when no step is left.
 */
export function decide(view: PlannerInput): PlannerDecision {
  const { context, refusals } = view;
  if (context.requestedAction !== null) return decideDirectAction(view, context.requestedAction);
  const refused = refusals[0];
  // Planning again would propose the same step again.
  if (refused !== undefined) {
    return { code: refused.code, failed: `The step ${refused.step.action} was refused: ${refused.detail}` };
  }
  if (context.kind === 'observation') return decideObservation(view);
  const decision = decideGoal(view);
  const over = context.nodes.length > 0 && !('steps' in decision);
  return over ? { done: summaryOf(view), finalState: finalStateOf(view) } : decision;
}

/** Plans a goal. If the context is about one device, only that device is visible. */
function decideGoal(view: PlannerInput): PlannerDecision {
  const { context, memories } = view;
  const devices = context.deviceId === null ? view.devices : view.devices.filter(({ id }) => id === context.deviceId);
  if (devices.length === 0) return { code: 'NO_SUCH_DEVICE', failed: 'No devices found.' };
  const parsed = parseInstructions(context.text, routineLookupFor(view));
  if (!('instructions' in parsed)) return notUnderstood(parsed);
  if (parsed.instructions.length === 0) return notUnderstood({ unclear: context.text });
  // A goal for one device applies to it, whatever targets the text names.
  const instructions =
    context.deviceId === null
      ? parsed.instructions
      : parsed.instructions.map((one): Instruction => ({ ...one, target: '', otherTargets: [] }));
  return decisionFromGraph(instructions, { ...view, devices, memories }, 'Nothing to do: the goal is already reached.');
}

function decisionFromGraph(
  instructions: readonly Instruction[],
  view: PlannerInput,
  nothingToDo: string,
  because = '',
): PlannerDecision {
  const graph = buildGraph(instructions, view, view.context.nodes);
  if ('impossible' in graph) return { code: graph.code, failed: graph.impossible };
  const offline = graph.leftOut.map((device) => truncateName(displayNameOf(device))).slice(0, 10);
  const notice = offline.length === 0 ? '' : ` Skipped, because offline: ${offline.join(', ')}.`;
  const [first, ...more] = graph.steps;
  if (first === undefined) {
    const summary = view.context.nodes.length > 0 ? because : `${because} ${nothingToDo}`;
    return { done: `${summary}${notice}`.trim(), finalState: {} };
  }
  return { steps: [first, ...more], because: `${because}${notice}`.trim() };
}

const notUnderstood = (why: Exclude<ParseResult, { instructions: unknown }>): PlannerDecision =>
  'endless' in why
    ? { code: 'GOAL_TOO_LONG', failed: 'The goal, including its routines, has too many sentences.' }
    : { code: 'GOAL_NOT_UNDERSTOOD', failed: `The rules do not understand "${truncateName(why.unclear)}".` };

const routineLookupFor =
  ({ memories }: PlannerInput): RoutineLookup =>
  (name) => {
    const bareName = name
      .replace(/^(?:run|start|activate|execute|do|set) /, '')
      .replace(/ (?:routine|scene|mode)$/, '');
    for (const candidate of new Set([name, bareName])) {
      const routine = findRoutine(candidate, memories);
      if (routine !== null) return { text: routine.content, optional: false, memoryId: routine.id };
      const builtIn = builtInRoutineOf(candidate);
      if (builtIn !== null) return { text: builtIn, optional: true, memoryId: null };
    }
    return null;
  };

function decideObservation(view: PlannerInput): PlannerDecision {
  const { context, devices } = view;
  const by = devices.find(({ id }) => id === context.deviceId) ?? null;
  const reactions = reactionsTo(context.data, by, view);
  if (reactions.length === 0) return { done: 'No measurement requires an action.', finalState: {} };
  const because = reactions.map((reaction) => reaction.because).join(' ');
  const instructions: Instruction[] = [];
  for (const { text, optional, memoryIds } of reactions) {
    const parsed = parseInstructions(text, routineLookupFor(view));
    if (!('instructions' in parsed)) return notUnderstood(parsed);
    instructions.push(
      ...parsed.instructions.map(
        (one): Instruction => ({
          ...one,
          optional: optional || one.optional,
          memoryIds: [...memoryIds, ...one.memoryIds],
        }),
      ),
    );
  }
  return decisionFromGraph(instructions, view, 'No device can do anything about it, or it is already done.', because);
}
