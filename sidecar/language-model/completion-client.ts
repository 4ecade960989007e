import { setTimeout as after } from 'node:timers/promises';
import { type BackoffLimits, backoffDelay } from '../../src/domain/backoff.ts';
import { isObject } from '../json-schema.ts';
import type { JsonObject, JsonValue } from '../planner-types.ts';
import type { Message, ToolCall } from './chat-messages.ts';

// Client of an OpenAI-compatible chat completions endpoint.

export interface EndpointSettings {
  /** Without `/chat/completions` and without a slash at its end. */
  baseUrl: string;
  model: string;
  apiKey: string | null;
}

export interface Completion {
  content: string | null;
  calls: readonly ToolCall[];
}

/** A failed request. The message is for the user: it contains no text of the endpoint and no key. */
export class ModelError extends Error {
  override name = 'ModelError';
  readonly code: 'MODEL_UNAVAILABLE' | 'MODEL_REFUSED' | 'MODEL_ANSWER_INVALID';
  constructor(code: ModelError['code'], sentence: string) {
    super(sentence);
    this.code = code;
  }
}

export interface EndpointParts {
  fetch?: typeof fetch;
  pause?(ms: number, signal: AbortSignal): Promise<unknown>;
  random?(): number;
}

export type CompletionClient = (
  messages: readonly Message[],
  tools: readonly JsonObject[],
  signal: AbortSignal,
) => Promise<Completion>;

const MAX_ATTEMPTS = 4;
const BACKOFF: BackoffLimits = { firstMs: 1_000, maxMs: 30_000 };
const REQUEST_TIMEOUT_MS = 60_000;
const MAX_ANSWER_BYTES = 1024 * 1024;
const MAX_TOOL_CALLS = 100;
/** Statuses that are retried. */
const retryableStatuses: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504, 529]);

export function makeCompletionClient(
  { baseUrl, model, apiKey }: EndpointSettings,
  {
    fetch: send = fetch,
    pause = (ms, signal) => after(ms, undefined, { signal }),
    random = Math.random,
  }: EndpointParts = {},
): CompletionClient {
  const headers = {
    'content-type': 'application/json',
    ...(apiKey !== null && { authorization: `Bearer ${apiKey}` }),
  };
  return async (messages, tools, signal) => {
    const body = JSON.stringify({ model, messages, tools, tool_choice: 'auto' });
    for (let attempt = 1; ; attempt++) {
      const response = await send(`${baseUrl}/chat/completions`, {
        ...{ method: 'POST', headers, body },
        // Never sends the key to another address.
        redirect: 'error',
        signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
      }).catch(() => null);
      signal.throwIfAborted();
      if (response?.ok) {
        const text = await readBounded(response);
        // The answer may be shown to users, so it must not contain the key.
        if (apiKey !== null && text.includes(apiKey)) throw invalidAnswer('contains the API key');
        return parseCompletion(text);
      }
      await response?.body?.cancel().catch(() => {});
      if (response !== null && !retryableStatuses.has(response.status)) {
        throw new ModelError('MODEL_REFUSED', `The language model endpoint answered ${response.status}.`);
      }
      if (attempt === MAX_ATTEMPTS) {
        const why =
          response === null ? 'cannot be reached' : `answered ${response.status} after ${MAX_ATTEMPTS} attempts`;
        throw new ModelError('MODEL_UNAVAILABLE', `The language model endpoint ${why}.`);
      }
      await pause(retryAfterMsOf(response) ?? backoffDelay(attempt, BACKOFF, 'half', random), signal);
    }
  };
}

/** `Retry-After` in seconds. A date is ignored: it depends on the endpoint's clock. */
function retryAfterMsOf(response: Response | null): number | null {
  const seconds = Number(response?.headers.get('retry-after') ?? Number.NaN);
  return seconds >= 0 ? Math.min(BACKOFF.maxMs, seconds * 1_000) : null;
}

async function readBounded(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > MAX_ANSWER_BYTES) break;
      text += decoder.decode(chunk, { stream: true });
    }
  } catch {
    throw new ModelError('MODEL_UNAVAILABLE', 'The connection to the language model endpoint was lost.');
  }
  if (bytes > MAX_ANSWER_BYTES) throw invalidAnswer('is too long');
  return text + decoder.decode();
}

const invalidAnswer = (problem: string) =>
  new ModelError('MODEL_ANSWER_INVALID', `The answer of the language model ${problem}.`);

function parseCompletion(text: string): Completion {
  let body: JsonValue;
  try {
    body = JSON.parse(text);
  } catch {
    throw invalidAnswer('is not JSON');
  }
  const choice = isObject(body) && Array.isArray(body.choices) ? body.choices[0] : undefined;
  const message = isObject(choice) ? choice.message : undefined;
  if (!isObject(choice) || !isObject(message)) throw invalidAnswer('has no message');
  if (choice.finish_reason === 'length') throw invalidAnswer('was cut off');
  const { content = null, tool_calls: toolCalls = null } = message;
  if (content !== null && typeof content !== 'string') throw invalidAnswer('has invalid content');
  if (toolCalls !== null && !Array.isArray(toolCalls)) throw invalidAnswer('has invalid tool calls');
  const calls = (toolCalls ?? []).map(parseToolCall);
  if (calls.length > MAX_TOOL_CALLS) throw invalidAnswer('has too many tool calls');
  if (calls.length === 0 && (content ?? '').trim() === '') throw invalidAnswer('is empty');
  return { content, calls };
}

function parseToolCall(call: JsonValue): ToolCall {
  const called = isObject(call) ? call.function : undefined;
  if (!isObject(call) || !isObject(called)) throw invalidAnswer('has an invalid tool call');
  const { name, arguments: text } = called;
  if (typeof name !== 'string' || typeof text !== 'string' || typeof call.id !== 'string') {
    throw invalidAnswer('has an invalid tool call');
  }
  return { id: call.id, name, arguments: text };
}
