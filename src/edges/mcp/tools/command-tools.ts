import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import type { JsonObject } from '../../../domain/values.ts';
import { callerRefusal } from '../../../operations/caller-authorization.ts';
import { type TargetResult, targetResult } from '../../../operations/commands/batch-dispatch.ts';
import { commandGroup, commandRoom } from '../../../operations/commands/command-batches.ts';
import { commandFields } from '../../../operations/commands/command-request.ts';
import { cancelledBody, type previewChanged, previewHash } from '../../../operations/commands/command-view.ts';
import { cancelCommand, commandDevice, confirmByToken } from '../../../operations/commands/commands.ts';
import type { Caller, Operation } from '../../../operations/operation.ts';
import type { Perform } from '../../../operations/perform.ts';
import { refusalResult, toolResult } from '../tool-results.ts';
import { inputSchema, outputSchema } from '../tool-schemas.ts';
import type { CommandToConfirm } from './confirmation-question.ts';
import { elicitConfirmation } from './elicitation.ts';
import {
  argumentsRefusal,
  DESTRUCTIVE,
  defineOperationTool,
  type McpTool,
  type McpToolCall,
  performWithToolNames,
} from './tool.ts';

// Commands through the safety gateway. A critical command waits for confirmation. If the client supports elicitation,
// the answer is elicited during the call; this counts as the requester's own confirmation and saves a second call.

const targetType = z.enum(['device', 'room', 'group']);
type TargetType = z.infer<typeof targetType>;

const targets: Readonly<Record<TargetType, { operation: Operation; member: string }>> = {
  device: { operation: commandDevice, member: 'deviceId' },
  room: { operation: commandRoom, member: 'roomId' },
  group: { operation: commandGroup, member: 'groupSlug' },
};
const targetTypeArgument = z.object({ target_type: targetType });

const { action, params, dry_run } = commandFields;
const schema = inputSchema(
  z.strictObject({
    target_type: targetType,
    target_id: z.string().meta({ description: 'Id of the device or the room, or slug of the group' }),
    action: action.meta({ description: 'Name of an action, from get_device_capabilities' }),
    params,
    dry_run,
  }),
);

const [dispatched, dryRunRequired] = commandDevice.output.options;
const dryRun = dryRunRequired.extend({
  code: z.literal('DRY_RUN_REQUIRED').optional().meta({ description: 'Present if no dry run was requested' }),
  preview_hash: previewHash.optional().meta({ description: 'Present if the preview has changed since the request' }),
});
type DryRun = z.infer<typeof dryRun>;
const batch = z.object({ results: z.array(targetResult) });

const executeCommand: McpTool = {
  name: 'execute_proto_command',
  title: 'Command devices',
  description:
    'Sends an action to a device, to all devices of a room or of a group, through the safety gateway. A critical action is not sent: the answer has a preview and a dry_run_token. Show the user the preview and confirm with confirm_proto_command only when they agree. dry_run: true previews any action. get_command_status returns the outcome of a command.',
  annotations: DESTRUCTIVE,
  operation: commandDevice,
  inputSchema: schema,
  outputSchema: outputSchema(z.union([dispatched, dryRun, batch, cancelledBody])),
  async call(call) {
    const { target_type, ...args } = call.args;
    const { caller, perform } = call;
    const invalid = argumentsRefusal(targetTypeArgument, { target_type });
    if (invalid !== null) {
      const refusal = callerRefusal(commandDevice, caller)?.refusal ?? invalid;
      await perform(commandDevice, { input: {}, caller, keyed: null, edgeRefusal: refusal });
      return refusalResult(refusal);
    }
    const { operation, member } = targets[target_type as TargetType];
    const outcome = await performWithToolNames(perform, operation, {
      args,
      caller,
      schema,
      names: { target_id: member },
    });
    if (!outcome.ok) return refusalResult(outcome.refusal);
    const { body, status } = outcome.value;
    if ('results' in (body as object)) return afterBatch(call, (body as z.infer<typeof batch>).results);
    if (status === undefined) return toolResult('The command was dispatched.', body as JsonObject);
    if (status === 200) return toolResult(`Nothing was sent yet. ${CONFIRM_HINT}`, body as JsonObject);
    return afterDryRun(call, { ...(body as DryRun), code: 'DRY_RUN_REQUIRED' });
  },
};

const CONFIRM_HINT = 'To send it, call confirm_proto_command with the dry_run_token before expires_at.';

async function afterDryRun(call: McpToolCall, pending: DryRun): Promise<CallToolResult> {
  const { reply, hint } = await elicitConfirmation(call, [{ ...pending, device_id: String(call.args.target_id) }]);
  if (reply === null) return toolResult(hint, pending as unknown as JsonObject);
  const { caller, accepted } = reply;
  if (!accepted) {
    await cancelAll(call.perform, caller, [pending.command_id]);
    return toolResult('The user declined; nothing was sent.', { status: 'cancelled', command_id: pending.command_id });
  }
  const input = { dry_run_token: pending.dry_run_token };
  const outcome = await call.perform(confirmByToken, { input, caller, keyed: null });
  if (!outcome.ok) return refusalResult(outcome.refusal);
  if (outcome.value.status === 409) {
    const shown = { ...pending, ...(outcome.value.body as z.infer<typeof previewChanged>) };
    return toolResult(CHANGED_HINT, shown as unknown as JsonObject);
  }
  return toolResult('The user confirmed, and the command was dispatched.', outcome.value.body as JsonObject);
}

const isCommandToConfirm = (one: TargetResult): one is TargetResult & CommandToConfirm =>
  one.code === 'DRY_RUN_REQUIRED' && !one.success;

async function afterBatch(call: McpToolCall, results: readonly TargetResult[]): Promise<CallToolResult> {
  const pending = results.filter(isCommandToConfirm);
  if (pending.length === 0) return toolResult(batchSummary(results), { results } as unknown as JsonObject);
  const { reply, hint } = await elicitConfirmation(call, pending);
  if (reply === null) {
    return toolResult(`${batchSummary(results)} ${hint}`, { results } as unknown as JsonObject);
  }
  const { caller, accepted } = reply;
  const ids = pending.map(({ command_id }) => command_id);
  if (!accepted) await cancelAll(call.perform, caller, ids);
  const after = await Promise.all(
    results.map((one) => {
      if (!isCommandToConfirm(one)) return one;
      return accepted ? confirmEntry(call.perform, caller, one) : refusedByUser(one);
    }),
  );
  const answer = accepted ? 'The user confirmed the critical commands.' : 'The user declined the critical commands.';
  return toolResult(`${answer} ${batchSummary(after)}`, { results: after } as unknown as JsonObject);
}

const batchSummary = (results: readonly TargetResult[]): string =>
  `${results.filter(({ success }) => success).length} of ${results.length} devices accepted the command.`;

const refusedByUser = ({ device_id, command_id }: TargetResult): TargetResult => ({
  device_id,
  success: false,
  ...(command_id && { command_id }),
  error: 'The user declined.',
  code: 'CONFIRMATION_FAILED',
});

async function confirmEntry(
  perform: Perform,
  caller: Caller,
  { device_id, command_id, dry_run_token }: TargetResult & CommandToConfirm,
): Promise<TargetResult> {
  const input = { dry_run_token, deviceId: device_id };
  const outcome = await perform(confirmByToken, { input, caller, keyed: null });
  if (outcome.ok && outcome.value.status === 409) {
    const { reason, expires_at, preview } = outcome.value.body as z.infer<typeof previewChanged>;
    const waiting = { status: 'dry_run_required', dry_run_token, expires_at, code: 'DRY_RUN_REQUIRED' } as const;
    return { device_id, success: false, command_id, error: reason, reason, preview, ...waiting };
  }
  if (outcome.ok) {
    const { message_id } = outcome.value.body as z.infer<typeof dispatched>;
    return { device_id, success: true, command_id, message_id, status: 'dispatched' as const };
  }
  const { code, detail } = outcome.refusal;
  return { device_id, success: false, command_id, error: detail, code };
}

async function cancelAll(perform: Perform, caller: Caller, commandIds: readonly string[]): Promise<void> {
  const input = { reason: 'The user declined.' };
  await Promise.all(commandIds.map((id) => perform(cancelCommand, { input: { id, ...input }, caller, keyed: null })));
}

const CHANGED_HINT =
  'Nothing was sent: the effect of the command has changed since its preview. Show the user the new preview; only when they agree, call confirm_proto_command with the same dry_run_token and this preview_hash before expires_at.';

const confirmCommand = defineOperationTool({
  name: 'confirm_proto_command',
  title: 'Confirm a critical command',
  description:
    'Sends the command of a dry run, with its token. Call it only after the user has seen the preview and agreed. If the effect has changed since the preview, nothing is sent, and the answer has the new preview. The token works once and for that command only; the tenant’s policy usually requires a person to confirm outside of this connection.',
  annotations: DESTRUCTIVE,
  operation: confirmByToken,
  arguments: { names: { device_id: 'deviceId' } },
  summary: (answer) => ('success' in answer ? 'The command is confirmed and was dispatched.' : CHANGED_HINT),
});

export const commandTools = [executeCommand, confirmCommand];
