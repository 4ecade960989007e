import { compensationFor } from '../compensation.ts';
import { decideDirectAction } from '../direct-action.ts';
import { isObject, schemaError } from '../json-schema.ts';
import { MAX_STEPS, type Planner, type PlannerDecision, type PlannerInput, type Step } from '../planner-types.ts';
import { finalStateOf } from '../summary.ts';
import {
  assistantMessage,
  buildMessages,
  lastRound,
  type Message,
  shownDevices,
  shownMemories,
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
/** How often a model may correct invalid calls. */
const MAX_CORRECTIONS = 2;
const MAX_CONCURRENT = 4;
const PLANNING_TIMEOUT_MS = 240_000;
const MAX_SENTENCE = 900;

/** A planner that uses a language model: it sees the home as data and acts by calling functions. */
export function languageModelPlanner(settings: EndpointSettings, parts: EndpointParts = {}): Planner {
  const complete = makeCompletionClient(settings, parts);
  const withPermit = makeSemaphore(MAX_CONCURRENT);
  return {
    name: 'language model',
    timeoutS: PLANNING_TIMEOUT_MS / 1_000 + 60,
    decide: (view, signal) =>
      // A requested action needs no planning.
      view.context.requestedAction === null
        ? withPermit(signal, () =>
            decide(view, complete, AbortSignal.any([signal, AbortSignal.timeout(PLANNING_TIMEOUT_MS)])),
          )
        : Promise.resolve(decideDirectAction(view, view.context.requestedAction)),
  };
}

/** A counting semaphore, first in, first out. */
function makeSemaphore(permits: number) {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async <T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> => {
    if (running >= permits) await new Promise<void>((resolve) => waiting.push(resolve));
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

async function decide(view: PlannerInput, complete: CompletionClient, signal: AbortSignal): Promise<PlannerDecision> {
  const round = lastRound(view) + 1;
  if (round > MAX_ROUNDS) {
    return { code: 'TOO_MANY_ROUNDS', failed: `The language model did not finish in ${MAX_ROUNDS} rounds.` };
  }
  const deviceFunctions = deviceFunctionsOf(shownDevices(view));
  const messages = buildMessages(view, deviceFunctions);
  const tools = functionSchemasOf(deviceFunctions);
  try {
    for (let corrections = 0; ; corrections++) {
      const answer = await complete(messages, tools, signal);
      const parsed = parseCalls(answer, deviceFunctions, round);
      if ('steps' in parsed) return toDecision(view, answer, parsed.steps);
      if ('reason' in parsed) return { code: 'GOAL_NOT_POSSIBLE', failed: parsed.reason };
      if (corrections === MAX_CORRECTIONS) {
        return {
          code: 'MODEL_ANSWER_INVALID',
          failed: `The language model made an invalid call: ${parsed.errors.values().next().value}.`,
        };
      }
      messages.push(...correctionMessages(answer, parsed.errors));
    }
  } catch (error) {
    if (error instanceof ModelError) return { code: error.code, failed: error.message };
    if (signal.aborted) return { code: 'MODEL_UNAVAILABLE', failed: 'The language model took too long.' };
    throw error;
  }
}

function toDecision(view: PlannerInput, { content }: Completion, steps: Step[]): PlannerDecision {
  const sentence = sanitizeLine(content ?? '', MAX_SENTENCE);
  const memoryIds = shownMemories(view).map(({ id }) => id);
  const [first, ...more] = steps.map((step) => ({ ...step, memoryIds }));
  if (first === undefined) return { done: sentence, finalState: finalStateOf(view) };
  const total = view.context.nodes.length + steps.length;
  if (total > MAX_STEPS)
    return { code: 'TOO_MANY_STEPS', failed: `The language model needs more than ${MAX_STEPS} steps.` };
  // The user who decides about the proposal should see that the reason is missing.
  const because =
    sentence === '' && view.context.kind === 'observation' ? 'The language model gave no reason.' : sentence;
  return { steps: [first, ...more], because };
}

type ParsedCalls = { steps: Step[] } | { reason: string } | { errors: Map<string, string> };

/** The calls as steps, or the errors by call id. */
function parseCalls({ calls }: Completion, deviceFunctions: readonly DeviceFunction[], round: number): ParsedCalls {
  const errors = new Map<string, string>();
  const steps: Step[] = [];
  for (const call of calls) {
    const args = parseArguments(call);
    if (call.name === CANNOT_DO) {
      const reason = isObject(args) && typeof args.reason === 'string' ? sanitizeLine(args.reason, MAX_SENTENCE) : '';
      return { reason: reason || 'The language model gave up without a reason.' };
    }
    const step = stepOf(call, args, deviceFunctions, stepId(round, steps.length + 1));
    if (typeof step === 'string') errors.set(call.id, step);
    else steps.push(step);
  }
  return errors.size > 0 ? { errors } : { steps };
}

function parseArguments({ arguments: text }: ToolCall): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function stepOf(
  { name }: ToolCall,
  args: unknown,
  deviceFunctions: readonly DeviceFunction[],
  id: string,
): Step | string {
  const called = deviceFunctions.find((one) => one.name === name);
  if (called === undefined) return `unknown function ${JSON.stringify(sanitizeLine(name, 64))}`;
  if (!isObject(args)) return 'the arguments must be a JSON object';
  const device = called.devices.find((one) => one.id === args.device_id);
  if (device === undefined) return 'device_id must be the id of a device that has this function';
  const params = args.params ?? {};
  const error = schemaError({ ...called.tool.params, type: 'object' }, params);
  if (error !== null || !isObject(params)) return error ?? 'params must be an object';
  const act = { action: called.tool.action, params };
  return { ...act, id, deviceId: device.id, dependsOn: [], compensation: compensationFor(device, act) };
}

/** Reports the errors, so that the model can correct its calls. No call of the answer was executed. */
const correctionMessages = ({ content, calls }: Completion, errors: ReadonlyMap<string, string>): Message[] => [
  assistantMessage(calls, content),
  ...calls.map(({ id }) =>
    toolMessage(id, `not executed: ${errors.get(id) ?? 'another call of the same answer is invalid'}`),
  ),
];
