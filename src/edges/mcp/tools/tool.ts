import type { ToolAnnotations } from '@modelcontextprotocol/sdk/types.js';
import { type ZodType, z } from 'zod';
import { errorText, fieldErrors } from '../../../domain/field-errors.ts';
import { type FieldError, type Outcome, type Refusal, refuse } from '../../../domain/refusals.ts';
import type { JsonObject } from '../../../domain/values.ts';
import { callerRefusal } from '../../../operations/caller-authorization.ts';
import type { Caller, Operation, Services } from '../../../operations/operation.ts';
import type { Perform, Performed } from '../../../operations/perform.ts';
import type { ClientInteraction } from '../client-interaction.ts';
import { type ListedPage, refusalResult, type ToolResult, toolResult } from '../tool-results.ts';
import {
  type ArgumentNames,
  type ArgumentOptions,
  inputSchema,
  type ObjectSchema,
  outputSchema,
} from '../tool-schemas.ts';

/** An MCP tool; one row of the specification's table of tools. */
export interface McpTool {
  name: string;
  title: string;
  description: string;
  /** Calling the tool needs the permissions of this operation. */
  operation: Operation;
  /** And of these. */
  alsoPerforms?: readonly Operation[];
  inputSchema: ObjectSchema;
  outputSchema: ObjectSchema;
  annotations: ToolAnnotations;
  call(call: McpToolCall): Promise<ToolResult>;
}

export interface McpToolCall {
  /** Unvalidated. */
  args: JsonObject;
  caller: Caller;
  perform: Perform;
  services: Pick<Services, 'actors' | 'agentTokens' | 'clock'>;
  client: ClientInteraction;
}

type ToolInfo = Pick<McpTool, 'name' | 'title' | 'description' | 'annotations'>;

/** Defines a tool that performs one operation; `view` reduces the output. */
export function defineOperationTool<In extends ZodType, Out extends ZodType, Shown extends ZodType = Out>(
  about: ToolInfo & {
    operation: Operation<In, Out>;
    arguments?: ArgumentOptions;
    /** One sentence. Must not contain texts of devices or users. */
    summary(shown: z.infer<Shown>): string;
  } & (Shown extends Out ? { view?: undefined } : { view: OutputView<Out, Shown> }),
): McpTool {
  const { operation, arguments: options = {}, summary, view, ...rest } = about;
  const outputView = view as OutputView<Out, Shown> | undefined;
  const schema = inputSchema(operation.input, options);
  return {
    ...rest,
    operation,
    inputSchema: schema,
    outputSchema: outputSchema(outputView?.schema ?? operation.output),
    async call({ args, caller, perform }) {
      const outcome = await performWithToolNames(perform, operation, { args, caller, schema, names: options.names });
      if (!outcome.ok) return refusalResult(outcome.refusal);
      const body = outcome.value.body as z.infer<Out>;
      const shown = (outputView === undefined ? body : outputView.of(body)) as z.infer<Shown>;
      return toolResult(summary(shown), shown as JsonObject, pageOf(operation, outcome.value));
    },
  };
}

/** The page in the answer of a list; undefined for every other answer. */
function pageOf({ output }: Operation, { cursors }: Performed): ListedPage | undefined {
  if (cursors === undefined || !(output instanceof z.ZodObject)) return undefined;
  const member = Object.keys(output.shape).find((name) => output.shape[name] instanceof z.ZodArray);
  return member === undefined ? undefined : { member, cursors };
}

export interface OutputView<Out extends ZodType, Shown extends ZodType> {
  schema: Shown;
  of(body: z.infer<Out>): z.infer<Shown>;
}

/** Performs an operation with a tool's arguments. Refusals name the fields by the tool's argument names. */
export async function performWithToolNames(
  perform: Perform,
  operation: Operation,
  request: { args: JsonObject; caller: Caller; schema: ObjectSchema; names?: ArgumentNames | undefined },
): Promise<Outcome<Performed>> {
  const { args, caller, schema, names = {} } = request;
  const properties = schema.properties as JsonObject;
  const unknown = Object.keys(args).filter((name) => !Object.hasOwn(properties, name));
  const input = Object.fromEntries(
    Object.entries(args).map(([name, value]) => [Object.hasOwn(names, name) ? (names[name] as string) : name, value]),
  );
  // A missing permission is reported before an unknown argument.
  const refusal = unknown.length === 0 || callerRefusal(operation, caller) !== null ? null : unknownArguments(unknown);
  const outcome = await perform(operation, { input, caller, keyed: null, ...(refusal && { edgeRefusal: refusal }) });
  return outcome.ok || outcome.refusal === refusal
    ? outcome
    : { ok: false, refusal: withToolNames(outcome.refusal, names) };
}

/** The refusal of arguments that do not match the schema, or null. */
export function argumentsRefusal(schema: ZodType, args: object): Refusal | null {
  const { error } = schema.safeParse(args, { error: errorText });
  return error === undefined ? null : invalidArguments(fieldErrors(error.issues));
}

const unknownArguments = (names: readonly string[]): Refusal =>
  invalidArguments(names.map((path) => ({ path, message: 'unknown field' })));

const invalidArguments = (errors: FieldError[]): Refusal =>
  refuse('VALIDATION_FAILED', errors.map(({ path, message }) => `${path}: ${message}`).join('; '), { errors }).refusal;

function withToolNames(refusal: Refusal, names: ArgumentNames): Refusal {
  const toolNames = new Map(Object.entries(names).map(([tool, input]) => [input, tool]));
  const { errors } = refusal;
  if (errors === undefined || toolNames.size === 0) return refusal;
  const renamed = errors.map(({ path, message }) => {
    const [first = '', ...rest] = path.split('.');
    return { path: [toolNames.get(first) ?? first, ...rest].join('.'), message };
  });
  if (renamed.every(({ path }, n) => path === errors[n]?.path)) return refusal;
  return { ...refusal, errors: renamed, detail: renamed.map(({ path, message }) => `${path}: ${message}`).join('; ') };
}

export const READ_ONLY: ToolAnnotations = { readOnlyHint: true, openWorldHint: false };
/** Adds a record and changes no existing one. */
export const ADDITIVE: ToolAnnotations = {
  readOnlyHint: false,
  destructiveHint: false,
  idempotentHint: false,
  openWorldHint: false,
};
/** Changes something in a home and may be irreversible. */
export const DESTRUCTIVE: ToolAnnotations = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: false,
  openWorldHint: true,
};
