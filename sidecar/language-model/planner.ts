import { compensationFor } from '../compensation.ts';
import { decideDirectAction } from '../direct-action.ts';
import { isObject, schemaError } from '../json-schema.ts';
import { type Decision, MAX_STEPS, type Planner, type PlannerInput, type Step } from '../planner-types.ts';
import { finalStateOf } from '../summary.ts';
import {
  assistantMessage,
  buildMessages,
  lastRound,
  type Message,
  shownDevices,
  stepId,
  type ToolCall,
  toolMessage,
} from './chat-messages.ts';
import {
  type Completion,
  type CompletionClient,
  type EndpointParts,
  type EndpointSettings,
  ModelError,
  makeCompletionClient,
} from './completion-client.ts';
import { CANNOT_DO, type DeviceFunction, deviceFunctionsOf, functionSchemasOf } from './device-functions.ts';
import { sanitizeLine } from './sanitizer.ts';

const MAX_ROUNDS = 8;
/** How often a model may mend calls that cannot be. */
const MAX_CORRECTIONS = 2;
const MAX_CONCURRENT = 4;
const PLANNING_TIMEOUT_MS = 240_000;
const MAX_SENTENCE = 900;

/** Plans by asking a language model, which sees the home as data and acts by calling functions. */
export function languageModelPlanner(settings: EndpointSettings, parts: EndpointParts = {}): Planner {
  const ask = makeCompletionClient(settings, parts);
  const turn = makeSemaphore(MAX_CONCURRENT);
  return {
    name: 'language model',
    timeoutS: PLANNING_TIMEOUT_MS / 1_000 + 60,
    decide: (view, signal) =>
      // What is asked for as it is needs no thought.
      view.context.requestedAction === null
        ? turn(signal, () => decide(view, ask, AbortSignal.any([signal, AbortSignal.timeout(PLANNING_TIMEOUT_MS)])))
        : Promise.resolve(decideDirectAction(view, view.context.requestedAction)),
  };
}

/** At most so many at a time, in the order in which they came. */
function makeSemaphore(most: number) {
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

async function decide(view: PlannerInput, ask: CompletionClient, signal: AbortSignal): Promise<Decision> {
  const round = lastRound(view) + 1;
  if (round > MAX_ROUNDS) {
    return { code: 'TOO_MANY_ROUNDS', failed: `The language model came to no end in ${MAX_ROUNDS} rounds.` };
  }
  const callables = deviceFunctionsOf(shownDevices(view));
  const messages = buildMessages(view, callables);
  const tools = functionSchemasOf(callables);
  try {
    for (let corrections = 0; ; corrections++) {
      const answer = await ask(messages, tools, signal);
      const read = parseCalls(answer, callables, round);
      if ('steps' in read) return toDecision(view, answer, read.steps);
      if ('reason' in read) return { code: 'GOAL_NOT_POSSIBLE', failed: read.reason };
      if (corrections === MAX_CORRECTIONS) {
        return {
          code: 'MODEL_ANSWER_INVALID',
          failed: `The language model called what cannot be: ${read.wrong.values().next().value}.`,
        };
      }
      messages.push(...correctionMessages(answer, read.wrong));
    }
  } catch (error) {
    if (error instanceof ModelError) return { code: error.code, failed: error.message };
    if (signal.aborted) return { code: 'MODEL_UNAVAILABLE', failed: 'The language model took too long.' };
    throw error;
  }
}

function toDecision(view: PlannerInput, { content }: Completion, steps: Step[]): Decision {
  const said = sanitizeLine(content ?? '', MAX_SENTENCE);
  const [first, ...more] = steps;
  if (first === undefined) return { done: said, finalState: finalStateOf(view) };
  const total = view.context.nodes.length + steps.length;
  if (total > MAX_STEPS)
    return { code: 'TOO_MANY_STEPS', failed: `The language model wants more than ${MAX_STEPS} steps.` };
  // Whoever is to accept it should know that none was given.
  const because = said === '' && view.context.kind === 'observation' ? 'The language model gave no reason.' : said;
  return { steps: [first, ...more], because };
}

type ParsedCalls = { steps: Step[] } | { reason: string } | { wrong: Map<string, string> };

/** The calls as steps; or what is wrong, by the id of the call. */
function parseCalls({ calls }: Completion, callables: readonly DeviceFunction[], round: number): ParsedCalls {
  const wrong = new Map<string, string>();
  const steps: Step[] = [];
  for (const call of calls) {
    const given = parseArguments(call);
    if (call.name === CANNOT_DO) {
      const reason =
        isObject(given) && typeof given.reason === 'string' ? sanitizeLine(given.reason, MAX_SENTENCE) : '';
      return { reason: reason || 'The language model sees no way.' };
    }
    const step = stepOf(call, given, callables, stepId(round, steps.length + 1));
    if (typeof step === 'string') wrong.set(call.id, step);
    else steps.push(step);
  }
  return wrong.size > 0 ? { wrong } : { steps };
}

function parseArguments({ arguments: text }: ToolCall): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function stepOf({ name }: ToolCall, given: unknown, callables: readonly DeviceFunction[], id: string): Step | string {
  const own = callables.find((callable) => callable.name === name);
  if (own === undefined) return `there is no function ${JSON.stringify(sanitizeLine(name, 64))}`;
  if (!isObject(given)) return 'the arguments are no JSON object';
  const device = own.devices.find((one) => one.id === given.device_id);
  if (device === undefined) return 'device_id names no device that has this function';
  const params = given.params ?? {};
  const misfits = schemaError({ ...own.tool.params, type: 'object' }, params);
  if (misfits !== null || !isObject(params)) return misfits ?? 'params must be an object';
  const act = { action: own.tool.action, params };
  return { ...act, id, deviceId: device.id, dependsOn: [], compensation: compensationFor(device, act) };
}

/** What was wrong, so that the model can mend it. Nothing of the answer was done. */
const correctionMessages = ({ content, calls }: Completion, wrong: ReadonlyMap<string, string>): Message[] => [
  assistantMessage(calls, content),
  ...calls.map(({ id }) => toolMessage(id, `not done: ${wrong.get(id) ?? 'another call of the same answer is wrong'}`)),
];
