import { z } from 'zod';
import type { Committed } from '../../actors/contract.ts';
import { iso } from '../../domain/iso-time.ts';
import { done } from '../../domain/refusals.ts';
import { reason, shownParams } from '../../domain/request-fields.ts';
import { namedProperties, type Preview } from '../../domain/twin.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import { confirmationDeadline } from '../../machines/command-judgement.ts';
import type { CommandFixed, Confirmation } from '../../machines/command-types.ts';
import type { PlanContext } from '../../machines/plan-types.ts';
import type { FirmwareRelease } from '../../store/contract/firmware.ts';
import { findRequestedRelease } from '../firmware/firmware-facts.ts';
import { cursorAfter, cursorsIn, idOf, isoTime, listCount, nextCursor, paging, startOf } from '../inputs.ts';
import { reachedDeviceIds } from '../key-reach.ts';
import { operation, type Services, tenantOf } from '../operation.ts';
import { memoriesOfStep, memoryReference, memoryReferenceOf } from '../plans/shaping-memories.ts';
import { keyNames, requestedWith, requestedWithOf } from '../requested-with.ts';
import {
  checkCommandPolicy,
  confirmationResponses,
  confirmationRules,
  confirmedBody,
  confirmedPreview,
  loadConfirmationTarget,
  sendConfirmation,
} from './command-confirmation.ts';
import { previewOf } from './command-request.ts';
import { cancelledBody, findCommand, hashPreview, previewBody, previewHash, principalId } from './command-view.ts';
import { endCommand } from './end-command.ts';
import { loadTargets, readTenant, type Target } from './gateway-facts.ts';

// The confirmation inbox: lists, approves and refuses waiting commands. It needs no token; identity and policy decide.

const confirmation = z
  .object({
    command_id: uuid,
    device_id: uuid,
    action: z.string(),
    params: shownParams,
    reason: z.string().meta({ description: 'Why a confirmation is required' }),
    preview: previewBody.meta({ description: "The effect on the device's state of now" }),
    preview_hash: previewHash,
    requested_by: z.string().meta({ description: 'The id of the requesting user' }),
    requested_with: requestedWith,
    requested_at: isoTime,
    expires_at: isoTime,
    plan_id: uuid.optional().meta({ description: 'The plan that the command is a step of' }),
    memories: z.array(memoryReference).optional().meta({
      description: 'The memories that shaped the step, if a sidecar planned it',
    }),
    compensation: z.object({ action: z.string(), params: shownParams }).optional().meta({
      description: 'The compensation of the step, if it is critical: the approval covers both, for this plan, once',
    }),
  })
  .meta({ id: 'Confirmation' });
type Entry = z.infer<typeof confirmation>;

export const listConfirmations = operation({
  name: 'listConfirmations',
  summary: 'List the commands that wait for a confirmation, newest first, or the dry runs that could be confirmed',
  input: z.strictObject({
    ...paging,
    dry_runs: z.boolean().optional().meta({
      description:
        'Instead, the dry runs that were requested with `dry_run`: nothing is sent unless they are confirmed',
    }),
  }),
  output: z.object({ confirmations: z.array(confirmation), count: listCount, next_cursor: nextCursor }),
  role: 'user',
  scope: 'read:commands',
  restrictedKeys: 'devices',
  changes: false,
  needs: ['actors', 'artifacts', 'clock', 'manifests', 'sessions', 'store'],
  async run(services, { input: { limit, cursor, dry_runs: dryRuns = false }, caller }) {
    const { actors, store, clock } = services;
    const listing = { route: 'confirmations', filters: dryRuns ? { dry_runs: 'true' } : {} };
    const start = startOf(listing, cursor);
    if (!start.ok) return start;
    const filter = { now: clock.now(), dryRuns, deviceIds: await reachedDeviceIds(store, caller) };
    const page = await store.commands.awaitingConfirmation(tenantOf(caller), filter, limit, start.value);
    const tenant = await readTenant(services, caller);
    const deadlineOf = (command: StoredCommand) => confirmationDeadline(command, confirmationRules(tenant, command));
    const commands = page.items
      .map(({ context }) => context as unknown as StoredCommand)
      .filter((command) => clock.now() < deadlineOf(command))
      // A restricted key cannot confirm them, and their plans name other devices.
      .filter(({ origin }) => caller.restriction === undefined || !origin?.plan);
    const targets = await loadTargets(services, caller, [...new Set(commands.map(({ deviceId }) => deviceId))]);
    const plans = await actors.readAll<PlanContext>('plan', [
      ...new Set(commands.flatMap(({ origin }) => origin?.plan?.id ?? [])),
    ]);
    const names = await keyNames(
      services,
      commands.map(({ requestedBy }) => requestedBy),
    );
    const confirmations = await Promise.all(
      commands.map(async (command) => {
        const release = await findRequestedRelease(services, caller, command);
        const shown = currentPreview(services, command, { target: targets.get(command.deviceId), release });
        return entryOf(command, { expiresAt: deadlineOf(command), shown, plans, names });
      }),
    );
    return done({
      body: { confirmations, count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

/** Rows written by an older version have no origin. */
type StoredCommand = Omit<CommandFixed, 'origin'> & Partial<Pick<CommandFixed, 'origin'>>;

/** The effect that a confirmation is compared with, or that of the request if the command cannot be confirmed. */
function currentPreview(
  services: Pick<Services, 'actors' | 'artifacts'>,
  { action, params, manifestVersion, confirmation }: StoredCommand,
  { target, release }: { target: Target | undefined; release: FirmwareRelease | null },
): Preview {
  if (target?.manifest?.version === manifestVersion) return previewOf(services, target, { action, params, release });
  // Confirmations of earlier versions have the whole state.
  return namedProperties((confirmation as Confirmation).preview);
}

interface Shown {
  expiresAt: EpochMs;
  shown: Preview;
  /** The plans of the commands. */
  plans: ReadonlyMap<Uuid, Committed<PlanContext>>;
  /** Of the requesters' API keys, by prefix. */
  names: ReadonlyMap<string, string>;
}

function entryOf(command: StoredCommand, { expiresAt, shown, plans, names }: Shown): Entry {
  const plan = command.origin?.plan ?? null;
  const memories = plan === null ? [] : memoriesOfStep(plans.get(plan.id)?.snapshot.context, plan);
  const { id, deviceId, action, params, requestedBy, requestedAt } = command;
  const { reason } = command.confirmation as Confirmation;
  return {
    command_id: id,
    device_id: deviceId,
    action,
    params,
    reason,
    preview: shown as z.infer<typeof previewBody>,
    preview_hash: hashPreview(shown),
    requested_by: principalId(requestedBy),
    requested_with: requestedWithOf(requestedBy, names),
    requested_at: iso(requestedAt),
    expires_at: iso(expiresAt),
    ...(plan !== null && { plan_id: plan.id }),
    ...(memories.length > 0 && { memories: memories.map(memoryReferenceOf) }),
    ...(plan?.compensation && { compensation: { ...plan.compensation } }),
  };
}

export const approveConfirmation = operation({
  name: 'approveConfirmation',
  summary: "Confirm a waiting command without its token, if the tenant's policy allows it",
  input: z.strictObject({ command_id: idOf('command'), ...confirmedPreview }),
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
    'ILLEGAL_TRANSITION',
    'DEVICE_REVOKED',
    'MANIFEST_NOT_FOUND',
    'PARAMS_INVALID',
    'COMMANDS_DISABLED',
  ],
  example: { input: { preview_hash: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08' } },
  needs: ['actors', 'agentTokens', 'artifacts', 'clock', 'flags', 'manifests', 'open', 'sessions', 'store', 'users'],
  async policy(services, { input, caller }) {
    const [tenant, command] = await Promise.all([
      readTenant(services, caller),
      findCommand(services, caller, input.command_id),
    ]);
    return command.ok ? checkCommandPolicy(services, tenant, caller, command.value.snapshot.context) : done(null);
  },
  async run(services, call) {
    const { input, caller } = call;
    const command = await findCommand(services, caller, input.command_id);
    if (!command.ok) return command;
    const context = await loadConfirmationTarget(services, caller, command.value.snapshot.context.fixed.deviceId);
    if (!context.ok) return context;
    return sendConfirmation(services, call, {
      ...context.value,
      command: command.value,
      tokenHash: null,
      previewHash: input.preview_hash,
    });
  },
});

export const refuseConfirmation = operation({
  name: 'refuseConfirmation',
  summary: 'Refuse a waiting command; requires the same role and scope as approving it',
  input: z.strictObject({ command_id: idOf('command'), reason: reason.optional() }),
  output: cancelledBody,
  role: 'user',
  scope: 'execute:commands',
  restrictedKeys: 'actions',
  changes: true,
  audit: 'journal',
  inMaintenance: true,
  refuses: ['NOT_FOUND', 'ILLEGAL_TRANSITION'],
  example: { input: { reason: 'The house is empty.' } },
  needs: ['actors', 'clock'],
  run: (services, call) =>
    endCommand(services, call, { type: 'refuse', id: call.input.command_id, reason: call.input.reason }),
});
