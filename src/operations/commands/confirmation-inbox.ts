import { z } from 'zod';
import { iso } from '../../domain/iso-time.ts';
import { done } from '../../domain/refusals.ts';
import { jsonObject, reason } from '../../domain/request-fields.ts';
import { namedProperties } from '../../domain/twin.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { CommandFixed, Confirmation } from '../../machines/command-types.ts';
import type { StoredActor } from '../../store/contract.ts';
import { cursorAfter, cursorsIn, idOf, isoTime, nextCursor, paging, startOf } from '../inputs.ts';
import { operation, tenantOf } from '../operation.ts';
import { checkConfirmPolicy, loadConfirmationTarget, sendConfirmation } from './command-confirmation.ts';
import { dispatchedBody } from './command-request.ts';
import { cancelledBody, findCommand, previewBody, principalId } from './command-view.ts';
import { endCommand } from './end-command.ts';
import { readTenant } from './gateway-facts.ts';

// The confirmation inbox: lists, approves and refuses waiting commands. It needs no token; identity and policy decide.

const confirmation = z
  .object({
    command_id: uuid,
    device_id: uuid,
    action: z.string(),
    params: jsonObject,
    reason: z.string().meta({ description: 'Why a confirmation is required' }),
    preview: previewBody,
    requested_by: z.string().meta({ description: 'The id of the requesting user' }),
    requested_at: isoTime,
    expires_at: isoTime,
    plan_id: uuid.optional().meta({ description: 'The plan that the command is a step of' }),
    compensation: z.object({ action: z.string(), params: jsonObject }).optional().meta({
      description: 'The compensation of the step, if it is critical: the approval covers both, for this plan, once',
    }),
  })
  .meta({ id: 'Confirmation' });
type Entry = z.infer<typeof confirmation>;

export const listConfirmations = operation({
  name: 'listConfirmations',
  summary: 'List the commands that wait for a confirmation, newest first',
  input: z.strictObject({ ...paging }),
  output: z.object({ confirmations: z.array(confirmation), next_cursor: nextCursor }),
  role: 'user',
  scope: 'read:commands',
  changes: false,
  needs: ['clock', 'store'],
  async run({ store, clock }, { input: { limit, cursor }, caller }) {
    const listing = { route: 'confirmations', filters: {} };
    const start = startOf(listing, cursor);
    if (!start.ok) return start;
    const page = await store.commands.awaitingConfirmation(tenantOf(caller), clock.now(), limit, start.value);
    return done({
      body: { confirmations: page.items.map(entryOf), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

function entryOf({ context }: StoredActor): Entry {
  // Rows written by an older version have no origin.
  const command = context as unknown as Omit<CommandFixed, 'origin'> & Partial<Pick<CommandFixed, 'origin'>>;
  const plan = command.origin?.plan ?? null;
  const { id, deviceId, action, params, requestedBy, requestedAt } = command;
  const { reason, preview, expiresAt } = command.confirmation as Confirmation;
  return {
    command_id: id,
    device_id: deviceId,
    action,
    params,
    reason,
    // Confirmations of earlier versions have the whole state.
    preview: namedProperties(preview) as z.infer<typeof previewBody>,
    requested_by: principalId(requestedBy),
    requested_at: iso(requestedAt),
    expires_at: iso(expiresAt),
    ...(plan !== null && { plan_id: plan.id }),
    ...(plan?.compensation && { compensation: { ...plan.compensation } }),
  };
}

export const approveConfirmation = operation({
  name: 'approveConfirmation',
  summary: "Confirm a waiting command without its token, if the tenant's policy allows it",
  input: z.strictObject({ command_id: idOf('command') }),
  output: dispatchedBody,
  role: 'user',
  scope: 'execute:commands',
  changes: true,
  audit: 'journal',
  refuses: [
    'NOT_FOUND',
    'CONFIRMATION_FAILED',
    'ILLEGAL_TRANSITION',
    'DEVICE_REVOKED',
    'MANIFEST_NOT_FOUND',
    'PARAMS_INVALID',
    'COMMANDS_DISABLED',
  ],
  needs: ['actors', 'artifacts', 'clock', 'flags', 'manifests', 'sessions', 'store'],
  async policy(services, { input, caller }) {
    const [tenant, command] = await Promise.all([
      readTenant(services, caller),
      findCommand(services, caller, input.command_id),
    ]);
    return command.ok
      ? checkConfirmPolicy(tenant, caller, command.value.snapshot.context.fixed.requestedBy)
      : done(null);
  },
  async run(services, call) {
    const { input, caller } = call;
    const command = await findCommand(services, caller, input.command_id);
    if (!command.ok) return command;
    const context = await loadConfirmationTarget(services, caller, command.value.snapshot.context.fixed.deviceId);
    if (!context.ok) return context;
    return sendConfirmation(services, call, { ...context.value, command: command.value, tokenHash: null });
  },
});

export const refuseConfirmation = operation({
  name: 'refuseConfirmation',
  summary: 'Refuse a waiting command; requires the same role and scope as approving it',
  input: z.strictObject({ command_id: idOf('command'), reason: reason.optional() }),
  output: cancelledBody,
  role: 'user',
  scope: 'execute:commands',
  changes: true,
  audit: 'journal',
  inMaintenance: true,
  refuses: ['NOT_FOUND', 'ILLEGAL_TRANSITION'],
  example: { input: { reason: 'The house is empty.' } },
  needs: ['actors', 'clock'],
  run: (services, call) =>
    endCommand(services, call, { type: 'refuse', id: call.input.command_id, reason: call.input.reason }),
});
