import { mayConfirmOwn } from '../../../operations/commands/command-confirmation.ts';
import type { ElicitationReply } from '../client-interaction.ts';
import { type CommandToConfirm, confirmationQuestion } from './confirmation-question.ts';
import type { McpToolCall } from './tool.ts';

const PREVIEW_HINT =
  'This is critical and was not sent. Show the user the preview; only when they agree, call confirm_proto_command with the dry_run_token before expires_at.';
const OTHER_CONFIRMER_HINT =
  'This is critical and was not sent. The tenant’s policy requires a person or another user to confirm it outside of this connection: refer the user to the pending confirmations.';

/**
 * Elicits a confirmation from the user, if the policy lets the requester confirm. Without a reply, `hint` is for the
 * model.
 */
export async function elicitConfirmation(
  { caller, services, client }: McpToolCall,
  pending: readonly CommandToConfirm[],
): Promise<{ reply: ElicitationReply | null; hint: string }> {
  if (!(await mayConfirmOwn(services, caller))) return { reply: null, hint: OTHER_CONFIRMER_HINT };
  const question = await confirmationQuestion(services.actors, pending);
  if (question === null) return { reply: null, hint: PREVIEW_HINT };
  const until = Math.min(...pending.map(({ expires_at }) => Date.parse(expires_at)));
  return { reply: await client.elicit(question, until), hint: PREVIEW_HINT };
}
