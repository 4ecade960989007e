import { z } from 'zod';
import { EventFailed } from '../../actors/contract.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { reason } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { CommandContext } from '../../machines/command-types.ts';
import { findRequestedRelease } from '../firmware/firmware-facts.ts';
import { idOf, isoTime } from '../inputs.ts';
import { actionRefusal } from '../key-reach.ts';
import { type Answer, type Caller, operation, type Services, tenantOf } from '../operation.ts';
import {
  checkConfirmPolicy,
  confirmationResponses,
  confirmedBody,
  confirmedPreview,
  loadConfirmationTarget,
  sendConfirmation,
} from './command-confirmation.ts';
import {
  type CommandRequest,
  commandFields,
  dispatchedBody,
  fullRefusal,
  hashToken,
  requestCommand,
  reserveIds,
} from './command-request.ts';
import { cancelledBody, findCommand, previewBody } from './command-view.ts';
import { endCommand } from './end-command.ts';
import { earlyRefusal, type GatewayServices, loadTarget, readTenant, targetFromMemory } from './gateway-facts.ts';

/** The specification's shape; HTTP's 409 adds `code` and `request_id`. */
const dryRunRequired = z.object({
  status: z.literal('dry_run_required'),
  reason: z.string(),
  dry_run_token: uuid,
  expires_at: isoTime,
  command_id: uuid,
  preview: previewBody,
});
const conflict = dryRunRequired.extend({ code: z.literal('DRY_RUN_REQUIRED'), request_id: uuid });

const commandAnswer = z.union([dispatchedBody, dryRunRequired]);
type CommandAnswer = Answer<z.infer<typeof commandAnswer>>;

export const commandDevice = operation({
  name: 'commandDevice',
  summary: 'Command a device; a critical action is answered with a dry run that must be confirmed',
  input: z.strictObject({ deviceId: idOf('device'), ...commandFields }),
  output: commandAnswer,
  responses: {
    202: { when: 'The command is dispatched', body: dispatchedBody },
    200: { when: 'The requested dry run', body: dryRunRequired.meta({ id: 'DryRun' }) },
    409: {
      when: 'A critical action that must be confirmed with this token',
      body: conflict.meta({ id: 'DryRunRequired' }),
    },
  },
  role: 'user',
  scope: 'execute:commands',
  restrictedKeys: 'actions',
  changes: true,
  audit: 'journal',
  refuses: [
    'NOT_FOUND',
    'DEVICE_REVOKED',
    'MANIFEST_NOT_FOUND',
    'RESTRICTED_ACTION',
    'ACTION_NOT_IN_MANIFEST',
    'PARAMS_INVALID',
    'COMMANDS_DISABLED',
    'GATEWAY_ERROR',
  ],
  example: { input: { action: 'set_brightness', params: { level: 40 } } },
  needs: ['actors', 'artifacts', 'clock', 'flags', 'log', 'manifests', 'newId', 'seal', 'sessions', 'store'],
  async run(services, { input, caller, idempotent }) {
    const { deviceId, ...fields } = input;
    const restricted = actionRefusal(caller, fields.action);
    if (restricted !== null) return restricted;
    const tenant = await readTenant(services, caller);
    const target =
      targetFromMemory(services, services.actors, caller, deviceId) ?? (await loadTarget(services, caller, deviceId));
    if (!target.ok) return { ok: false, refusal: earlyRefusal(services, tenant, null) ?? target.refusal };
    const release = await findRequestedRelease(services, caller, fields);
    const request: CommandRequest = {
      tenant,
      target: target.value,
      input: fields,
      ids: reserveIds(services, deviceId),
      release,
    };
    const answer = (command: CommandContext) => answerTo(services, command, request);
    try {
      const command = await requestCommand(services, caller, request, (command) => {
        if (idempotent === null) return null;
        const decided = answer(command);
        return decided.ok ? idempotent.toRow(decided.value) : null;
      });
      return answer(command);
    } catch (fault) {
      if (!(fault instanceof EventFailed)) throw fault;
      services.log.error({ request_id: caller.requestId, device_id: deviceId, err: fault }, 'safety gateway failed');
      return refuse('GATEWAY_ERROR', 'The safety gateway failed; nothing was sent.');
    }
  },
});

/** 202 for a dispatched command, the dry run with 200 if the client requested it and 409 otherwise, or the refusal. */
function answerTo(services: GatewayServices, command: CommandContext, request: CommandRequest): Outcome<CommandAnswer> {
  const { confirmation, refusal } = command.fixed;
  if (refusal !== null)
    return { ok: false, refusal: { ...fullRefusal(services, command, request), commandId: command.fixed.id } };
  if (confirmation === null) {
    return done({ body: { success: true, command_id: command.fixed.id, message_id: command.fixed.messageId } });
  }
  const body = {
    status: 'dry_run_required' as const,
    reason: confirmation.reason,
    dry_run_token: request.ids.dry_run_token,
    expires_at: iso(confirmation.expiresAt),
    command_id: command.fixed.id,
    preview: confirmation.preview as z.infer<typeof previewBody>,
  };
  return done({ status: confirmation.asked ? 200 : 409, body });
}

// An invalid token is CONFIRMATION_FAILED, not VALIDATION_FAILED, so its format is not checked here (contract §5).
const token = z.string();

const confirmBase = {
  name: 'confirmCommand',
  summary: 'Confirm a dry run with its token',
  output: confirmedBody,
  responses: confirmationResponses,
  role: 'user',
  scope: 'execute:commands',
  restrictedKeys: 'actions',
  changes: true,
  audit: 'journal',
  refuses: [
    'NOT_FOUND',
    'CONFIRMATION_FAILED',
    'DEVICE_REVOKED',
    'MANIFEST_NOT_FOUND',
    'PARAMS_INVALID',
    'COMMANDS_DISABLED',
  ],
  async policy(services: Pick<Services, 'actors' | 'agentTokens'>, { caller }: { caller: Caller }) {
    return checkConfirmPolicy(services, await readTenant(services, caller), caller);
  },
} as const;

export const confirmCommand = operation({
  ...confirmBase,
  input: z
    .strictObject({
      deviceId: idOf('device'),
      dry_run_token: token.optional(),
      token: token.optional(),
      ...confirmedPreview,
    })
    .refine((given) => given.dry_run_token !== undefined || given.token !== undefined, {
      path: ['dry_run_token'],
      message: 'is required',
    })
    .refine((given) => (given.dry_run_token ?? given.token) === (given.token ?? given.dry_run_token), {
      path: ['token'],
      message: 'differs from dry_run_token',
    }),
  bodyRules: { anyOf: [{ required: ['dry_run_token'] }, { required: ['token'] }] },
  example: { input: { dry_run_token: '6f1c2f7e-4b0a-4d0e-9a53-2f8f0c1d7b11' } },
  needs: ['actors', 'agentTokens', 'artifacts', 'clock', 'flags', 'manifests', 'open', 'sessions', 'store', 'users'],
  async run(services, call) {
    const { input, caller } = call;
    const context = await loadConfirmationTarget(services, caller, input.deviceId);
    if (!context.ok) return context;
    const tokenHash = hashToken(input.dry_run_token ?? input.token ?? '');
    const found = await services.store.commands.byToken(tenantOf(caller), input.deviceId, tokenHash);
    const command = found === null ? null : await findCommand(services, caller, found.id);
    if (!command?.ok) return refuse('CONFIRMATION_FAILED', 'The token is not valid for this device.');

    return sendConfirmation(services, call, {
      ...{ ...context.value, command: command.value, tokenHash, previewHash: input.preview_hash },
    });
  },
});

/** The same for protocols that may send the token without the device id. */
export const confirmByToken = operation({
  ...confirmBase,
  input: z.strictObject({ dry_run_token: token, deviceId: idOf('device').optional(), ...confirmedPreview }),
  needs: ['actors', 'agentTokens', 'artifacts', 'clock', 'flags', 'manifests', 'open', 'sessions', 'store', 'users'],
  async run(services, call) {
    const { deviceId: named, dry_run_token, preview_hash } = call.input;
    const found =
      named === undefined
        ? await services.store.commands.byToken(tenantOf(call.caller), null, hashToken(dry_run_token))
        : { deviceId: named };
    if (found === null) return refuse('CONFIRMATION_FAILED', 'The token is not valid.');
    return confirmCommand.run(services, { ...call, input: { deviceId: found.deviceId, dry_run_token, preview_hash } });
  },
});

export const cancelCommand = operation({
  name: 'cancelCommand',
  summary: 'Cancel a command that has not been written to the device yet',
  input: z.strictObject({ id: idOf('command'), reason: reason.optional() }),
  output: cancelledBody,
  role: 'user',
  scope: 'execute:commands',
  restrictedKeys: 'actions',
  changes: true,
  audit: 'journal',
  inMaintenance: true,
  refuses: ['NOT_FOUND', 'ILLEGAL_TRANSITION'],
  example: { input: { reason: 'No longer needed' } },
  needs: ['actors', 'clock'],
  run: (services, call) => endCommand(services, call, { type: 'cancel', id: call.input.id, reason: call.input.reason }),
});
