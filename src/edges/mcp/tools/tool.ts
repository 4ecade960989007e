import type { CallToolResult, ToolAnnotations } from '@modelcontextprotocol/sdk/types.js';
import type { ZodType, z } from 'zod';
import { type Outcome, type Refusal, refuse } from '../../../domain/refusals.ts';
import type { JsonObject } from '../../../domain/values.ts';
import type { Caller, Operation, Services } from '../../../operations/operation.ts';
import { callerRefusal, type Perform, type Performed } from '../../../operations/perform.ts';
import type { ClientInteraction } from '../client-interaction.ts';
import { refusalResult, toolResult } from '../tool-results.ts';
import {
  type ArgumentNames,
  type ArgumentOptions,
  inputSchema,
  type ObjectSchema,
  outputSchema,
} from '../tool-schemas.ts';

/** One line of the specification's table of tools. */
export interface Tool {
  name: string;
  title: string;
  description: string;
  /** Who may call it is who may call this. */
  operation: Operation;
  inputSchema: ObjectSchema;
  outputSchema: ObjectSchema;
  annotations: ToolAnnotations;
  call(call: ToolCall): Promise<CallToolResult>;
}

export interface ToolCall {
  /** As they came: unchecked. */
  args: JsonObject;
  caller: Caller;
  perform: Perform;
  services: Pick<Services, 'actors'>;
  client: ClientInteraction;
}

type ToolInfo = Pick<Tool, 'name' | 'title' | 'description' | 'annotations'>;

/** A tool that is one operation, perhaps with less in its answer. */
export function defineOperationTool<In extends ZodType, Out extends ZodType, Shown extends ZodType = Out>(
  about: ToolInfo & {
    operation: Operation<In, Out>;
    arguments?: ArgumentOptions;
    /** One sentence of ours: nothing that a device or a user wrote. */
    words(shown: z.infer<Shown>): string;
  } & (Shown extends Out ? { shows?: undefined } : { shows: OutputView<Out, Shown> }),
): Tool {
  const { operation, arguments: given = {}, words, shows, ...rest } = about;
  const shown = shows as OutputView<Out, Shown> | undefined;
  const schema = inputSchema(operation.input, given);
  return {
    ...rest,
    operation,
    inputSchema: schema,
    outputSchema: outputSchema(shown?.schema ?? operation.output),
    async call({ args, caller, perform }) {
      const outcome = await performWithToolNames(perform, operation, { args, caller, schema, names: given.names });
      if (!outcome.ok) return refusalResult(outcome.refusal);
      const body = outcome.value.body as z.infer<Out>;
      const told = (shown === undefined ? body : shown.of(body)) as z.infer<Shown>;
      return toolResult(words(told), told as JsonObject);
    },
  };
}

export interface OutputView<Out extends ZodType, Shown extends ZodType> {
  schema: Shown;
  of(body: z.infer<Out>): z.infer<Shown>;
}

/** Runs an operation with a tool's arguments; what it refuses is told by the tool's names. */
export async function performWithToolNames(
  perform: Perform,
  operation: Operation,
  asked: { args: JsonObject; caller: Caller; schema: ObjectSchema; names?: ArgumentNames | undefined },
): Promise<Outcome<Performed>> {
  const { args, caller, schema, names = {} } = asked;
  const known = schema.properties as JsonObject;
  const stray = Object.keys(args).filter((name) => !Object.hasOwn(known, name));
  const input = Object.fromEntries(
    Object.entries(args).map(([name, value]) => [Object.hasOwn(names, name) ? (names[name] as string) : name, value]),
  );
  // Who may not call it hears that first.
  const barred = stray.length === 0 || callerRefusal(operation, caller) !== null ? null : unknownArguments(stray);
  const outcome = await perform(operation, { input, caller, keyed: null, ...(barred && { barred }) });
  return outcome.ok || outcome.refusal === barred
    ? outcome
    : { ok: false, refusal: withToolNames(outcome.refusal, names) };
}

/** Arguments that are not as the tool's own schema says. */
export const invalidArguments = (names: readonly string[], message: string): Refusal =>
  refuse('VALIDATION_FAILED', names.map((path) => `${path}: ${message}`).join('; '), {
    errors: names.map((path) => ({ path, message })),
  }).refusal;

const unknownArguments = (names: readonly string[]): Refusal => invalidArguments(names, 'is not known here');

function withToolNames(refusal: Refusal, names: ArgumentNames): Refusal {
  const toolNames = new Map(Object.entries(names).map(([tool, own]) => [own, tool]));
  const { errors } = refusal;
  if (errors === undefined || toolNames.size === 0) return refusal;
  const renamed = errors.map(({ path, message }) => {
    const [first = '', ...rest] = path.split('.');
    return { path: [toolNames.get(first) ?? first, ...rest].join('.'), message };
  });
  if (renamed.every(({ path }, n) => path === errors[n]?.path)) return refusal;
  return { ...refusal, errors: renamed, detail: renamed.map(({ path, message }) => `${path}: ${message}`).join('; ') };
}

/** Looks, and changes nothing anywhere. */
export const READ_ONLY: ToolAnnotations = { readOnlyHint: true, openWorldHint: false };
/** Adds a record; nothing that was there is lost. */
export const ADDITIVE: ToolAnnotations = {
  readOnlyHint: false,
  destructiveHint: false,
  idempotentHint: false,
  openWorldHint: false,
};
/** Moves something in somebody's house, and may not be undone. */
export const DESTRUCTIVE: ToolAnnotations = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: false,
  openWorldHint: true,
};
