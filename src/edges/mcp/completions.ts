import type { CompleteRequest, CompleteResult } from '@modelcontextprotocol/sdk/types.js';
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import type { JsonObject } from '../../domain/values.ts';
import { callerRefusal } from '../../operations/caller-authorization.ts';
import type { Caller } from '../../operations/operation.ts';
import type { Perform } from '../../operations/perform.ts';
import { promptArgumentKind, promptsFor } from './prompts.ts';
import { type ResourceKind, resources, resourceTemplates } from './resources.ts';

/** Limit of the MCP specification. */
const MAX_VALUES = 100;
/** Only the newest resources of a kind are searched. */
const SCAN_LIMIT = 200;

/** Ids that start with the typed text, or whose resource has it in its name. Throws if the reference does not exist. */
export async function completeArgument(
  perform: Perform,
  caller: Caller,
  { ref, argument }: CompleteRequest['params'],
): Promise<CompleteResult> {
  const kind =
    ref.type === 'ref/prompt'
      ? kindOfPromptArgument(caller, ref.name, argument.name)
      : kindOfTemplateArgument(ref.uri, argument.name);
  if (kind === null || callerRefusal(resources[kind].list, caller) !== null) return { completion: { values: [] } };
  const input = { limit: SCAN_LIMIT };
  const outcome = await perform(resources[kind].list, { input, caller, keyed: null });
  if (!outcome.ok) return { completion: { values: [] } };
  const typed = argument.value.toLowerCase();
  const body = outcome.value.body as JsonObject;
  const found = (body[kind] as JsonObject[]).filter(
    (entry) =>
      String(entry.id).startsWith(typed) || `${resources[kind].nameOf(entry) ?? ''}`.toLowerCase().includes(typed),
  );
  const values = found.slice(0, MAX_VALUES).map(({ id }) => String(id));
  return { completion: { values, hasMore: found.length > MAX_VALUES || body.next_cursor !== null } };
}

function kindOfPromptArgument(caller: Caller, name: string, argument: string): ResourceKind | null {
  if (promptsFor(caller).some((prompt) => prompt.name === name)) return promptArgumentKind(name, argument);
  throw new McpError(ErrorCode.InvalidParams, 'Prompt not found.');
}

function kindOfTemplateArgument(uri: string, argument: string): ResourceKind | null {
  const found = resourceTemplates.find(({ uriTemplate }) => uriTemplate === uri);
  if (found === undefined) throw new McpError(ErrorCode.InvalidParams, 'Resource template not found.');
  return argument === 'id' ? found.name : null;
}
