import { type Decision, MAX_STEPS, type Planner, type Step, type View } from '../model.ts';
import { obey } from '../obey.ts';
import { isObject, misfit } from '../schema.ts';
import { finalStateOf } from '../summary.ts';
import { undoOf } from '../undo.ts';
import {
  called,
  conversation,
  lastRound,
  type Message,
  result,
  shownDevices,
  stepId,
  type ToolCall,
} from './conversation.ts';
import { clean } from './data.ts';
import { type Answer, type Ask, type EndpointParts, type EndpointSettings, endpoint, ModelFailed } from './endpoint.ts';
import { CANNOT, type Callable, callablesOf, functionsOf } from './functions.ts';

const MOST_ROUNDS = 8;
/** How often a model may mend calls that cannot be. */
const MOST_CORRECTIONS = 2;
const MOST_AT_ONCE = 4;
const THOUGHT_MS = 240_000;
const SENTENCE = 900;

/** Plans by asking a language model, which sees the home as data and acts by calling functions. */
export function languageModel(settings: EndpointSettings, parts: EndpointParts = {}): Planner {
  const ask = endpoint(settings, parts);
  const turn = queue(MOST_AT_ONCE);
  return {
    name: 'language model',
    thinksForS: THOUGHT_MS / 1_000 + 60,
    next: (view, signal) =>
      // What is asked for as it is needs no thought.
      view.context.act === null
        ? turn(signal, () => decide(view, ask, AbortSignal.any([signal, AbortSignal.timeout(THOUGHT_MS)])))
        : Promise.resolve(obey(view, view.context.act)),
  };
}

/** At most so many at a time, in the order in which they came. */
function queue(most: number) {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async <T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      signal.throwIfAborted();
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}

async function decide(view: View, ask: Ask, signal: AbortSignal): Promise<Decision> {
  const round = lastRound(view) + 1;
  if (round > MOST_ROUNDS) {
    return { code: 'TOO_MANY_ROUNDS', failed: `The language model came to no end in ${MOST_ROUNDS} rounds.` };
  }
  const callables = callablesOf(shownDevices(view));
  const messages = conversation(view, callables);
  const tools = functionsOf(callables);
  try {
    for (let corrections = 0; ; corrections++) {
      const answer = await ask(messages, tools, signal);
      const read = readCalls(answer, callables, round);
      if ('steps' in read) return conclude(view, answer, read.steps);
      if ('reason' in read) return { code: 'GOAL_NOT_POSSIBLE', failed: read.reason };
      if (corrections === MOST_CORRECTIONS) {
        return {
          code: 'MODEL_ANSWER_INVALID',
          failed: `The language model called what cannot be: ${read.wrong.values().next().value}.`,
        };
      }
      messages.push(...corrected(answer, read.wrong));
    }
  } catch (error) {
    if (error instanceof ModelFailed) return { code: error.code, failed: error.message };
    if (signal.aborted) return { code: 'MODEL_UNAVAILABLE', failed: 'The language model took too long.' };
    throw error;
  }
}

function conclude(view: View, { content }: Answer, steps: Step[]): Decision {
  const said = clean(content ?? '', SENTENCE);
  const [first, ...more] = steps;
  if (first === undefined) return { done: said, finalState: finalStateOf(view) };
  const total = view.context.nodes.length + steps.length;
  if (total > MAX_STEPS)
    return { code: 'TOO_MANY_STEPS', failed: `The language model wants more than ${MAX_STEPS} steps.` };
  // Whoever is to accept it should know that none was given.
  const because = said === '' && view.context.kind === 'observation' ? 'The language model gave no reason.' : said;
  return { steps: [first, ...more], because };
}

type Read = { steps: Step[] } | { reason: string } | { wrong: Map<string, string> };

/** The calls as steps; or what is wrong, by the id of the call. */
function readCalls({ calls }: Answer, callables: readonly Callable[], round: number): Read {
  const wrong = new Map<string, string>();
  const steps: Step[] = [];
  for (const call of calls) {
    const given = argumentsOf(call);
    if (call.name === CANNOT) {
      const reason = isObject(given) && typeof given.reason === 'string' ? clean(given.reason, SENTENCE) : '';
      return { reason: reason || 'The language model sees no way.' };
    }
    const step = stepOf(call, given, callables, stepId(round, steps.length + 1));
    if (typeof step === 'string') wrong.set(call.id, step);
    else steps.push(step);
  }
  return wrong.size > 0 ? { wrong } : { steps };
}

function argumentsOf({ arguments: text }: ToolCall): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function stepOf({ name }: ToolCall, given: unknown, callables: readonly Callable[], id: string): Step | string {
  const own = callables.find((callable) => callable.name === name);
  if (own === undefined) return `there is no function ${JSON.stringify(clean(name, 64))}`;
  if (!isObject(given)) return 'the arguments are no JSON object';
  const device = own.devices.find((one) => one.id === given.device_id);
  if (device === undefined) return 'device_id names no device that has this function';
  const params = given.params ?? {};
  const misfits = misfit({ ...own.tool.params, type: 'object' }, params);
  if (misfits !== null || !isObject(params)) return misfits ?? 'params must be an object';
  const act = { action: own.tool.action, params };
  return { ...act, id, deviceId: device.id, dependsOn: [], compensation: undoOf(device, act) };
}

/** What was wrong, so that the model can mend it. Nothing of the answer was done. */
const corrected = ({ content, calls }: Answer, wrong: ReadonlyMap<string, string>): Message[] => [
  called(calls, content),
  ...calls.map(({ id }) => result(id, `not done: ${wrong.get(id) ?? 'another call of the same answer is wrong'}`)),
];
