import { z } from 'zod';
import { ActorExists, Overloaded } from '../../actors/contract.ts';
import { refusalCodeSchema } from '../../domain/enum-schemas.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome, type RefusalCode, refuse } from '../../domain/refusals.ts';
import { isCanonicalUuid } from '../../domain/uuid.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import type { CommandContext } from '../../machines/command-types.ts';
import { CommitUnknown, StoreUnavailable } from '../../store/contract.ts';
import { findRequestedRelease } from '../firmware/firmware-facts.ts';
import { isoTime, notFound, notFoundDetails } from '../inputs.ts';
import { actionRefusal, onlyReached, reachedDeviceIds, reachedPlaces, seenGroups, seesRoom } from '../key-reach.ts';
import { type Call, type Caller, type Services, tenantOf } from '../operation.ts';
import {
  type CommandInput,
  type CommandRequest,
  type CommandServices,
  type ReservedIds,
  requestCommand,
  reservedIds,
  reserveIds,
} from './command-request.ts';
import { previewBody } from './command-view.ts';
import { earlyRefusal, loadTargets, readTenant, type TargetServices } from './gateway-facts.ts';

// One command for many devices: every target passes the gateway separately, and a failed target does not affect the
// others.

export const MAX_TARGETS = 500;

export const targetStatus = z.enum(['dispatched', 'rejected', 'dry_run_required']).meta({ id: 'TargetStatus' });

/** The result for one target. */
export const targetResult = z.object({
  device_id: z.string(),
  success: z.boolean(),
  command_id: uuid.optional(),
  message_id: uuid.optional(),
  status: targetStatus.optional(),
  dry_run_token: uuid.optional(),
  expires_at: isoTime.optional(),
  reason: z.string().optional().meta({ description: 'Why it must be confirmed, with `dry_run_required`' }),
  preview: previewBody.optional().meta({ description: 'The expected effect, with `dry_run_required`' }),
  error: z.string().optional().meta({ description: 'Reason of the refusal, in one sentence' }),
  code: refusalCodeSchema.optional(),
});
export type TargetResult = z.infer<typeof targetResult>;

/** The devices of a room, or those of one category in it. */
export async function roomDeviceIds(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  roomId: Uuid,
  category?: string,
): Promise<Outcome<Uuid[]>> {
  const tenantId = tenantOf(caller);
  const room = await store.records.room(tenantId, roomId);
  if (room === null || !seesRoom(await reachedPlaces(store, caller), room)) return notFound('room');
  return checkTargetCount(await onlyReached(store, caller, await store.devices.inRoom(tenantId, roomId, category)));
}

export async function groupDeviceIds(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  slug: string,
): Promise<Outcome<Uuid[]>> {
  const isSeen = seenGroups(caller)?.includes(slug) ?? true;
  const group = isSeen ? await store.records.group(tenantOf(caller), slug) : null;
  return group === null ? notFound('group') : checkTargetCount(await onlyReached(store, caller, group.deviceIds));
}

/** The devices with all of the tags that are not revoked, newest first. */
export async function taggedDeviceIds(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  tags: readonly string[],
): Promise<Outcome<Uuid[]>> {
  const ids = await reachedDeviceIds(store, caller);
  const filter = { tags, revoked: false, ...(ids !== undefined && { ids }) };
  const { items } = await store.devices.list(tenantOf(caller), filter, MAX_TARGETS + 1);
  if (items.length <= MAX_TARGETS) return done(items.map(({ id }) => id));
  return refuse('VALIDATION_FAILED', `The tags have more than ${MAX_TARGETS} devices, the maximum of one request.`);
}

const checkTargetCount = (ids: Uuid[]): Outcome<Uuid[]> =>
  ids.length <= MAX_TARGETS
    ? done(ids)
    : refuse('VALIDATION_FAILED', `${ids.length} devices exceed the maximum of ${MAX_TARGETS} targets of one request.`);

/**
 * Commands all targets concurrently. With an idempotency key, the ids of all commands are stored first: a repeat of an
 * interrupted request finds the existing commands and creates the missing ones with their reserved ids.
 */
export async function commandTargets(
  services: CommandServices & TargetServices & Pick<Services, 'log' | 'newId' | 'store'>,
  { caller, idempotent }: Pick<Call<unknown>, 'caller' | 'idempotent'>,
  input: CommandInput,
  targetIds: () => Promise<Outcome<string[]>>,
): Promise<Outcome<TargetResult[]>> {
  const restricted = actionRefusal(caller, input.action);
  if (restricted !== null) return restricted;
  const resumed = idempotent?.reserved ? z.array(reservedIds).parse(idempotent.reserved) : null;
  const ids = resumed === null ? await targetIds() : done(resumed.map(({ device_id }) => device_id));
  if (!ids.ok) return ids;
  const reserved = resumed ?? ids.value.map((id) => reserveIds(services, id));
  if (resumed === null) await idempotent?.reserve(reserved);

  const [tenant, targets, existing, release] = await Promise.all([
    readTenant(services, caller),
    loadTargets(services, caller, ids.value.filter(isCanonicalUuid)),
    findExisting(services, resumed ?? []),
    findRequestedRelease(services, caller, input),
  ]);
  const missing = earlyRefusal(services, tenant, null) ?? {
    code: 'NOT_FOUND' as const,
    detail: notFoundDetails.device,
  };
  const attempts = await Promise.allSettled(
    reserved.map(async (own): Promise<TargetResult> => {
      const target = targets.get(own.device_id);
      if (target === undefined) return failedResult(own.device_id, missing.code, missing.detail);
      const request: CommandRequest = { tenant, target, input, ids: own, release };
      return targetResultOf(existing.get(own.command_id) ?? (await createOrFind(services, caller, request)), request);
    }),
  );
  const faults = attempts.flatMap((attempt) => (attempt.status === 'rejected' ? [attempt.reason] : []));
  // A repeat may succeed once the store answers: a transient fault must not become part of the stored answer.
  const transient = faults.find(isTransientFault);
  if (transient !== undefined && (idempotent !== null || faults.length === reserved.length))
    throw combineUnknownCommits(transient, faults);
  return done(
    attempts.map((attempt, index) =>
      attempt.status === 'fulfilled'
        ? attempt.value
        : faultResult(services, reserved[index] as ReservedIds, attempt.reason, caller),
    ),
  );
}

/** An earlier attempt may commit the command after `findExisting` has read. */
async function createOrFind(
  services: CommandServices,
  caller: Caller,
  request: CommandRequest,
): Promise<CommandContext> {
  try {
    return await requestCommand(services, caller, request);
  } catch (fault) {
    const { command_id: id } = request.ids;
    const found = fault instanceof ActorExists ? (await findExisting(services, [request.ids])).get(id) : undefined;
    if (found === undefined) throw fault;
    return found;
  }
}

/** The commands created by an earlier attempt, by id. */
async function findExisting(
  { actors }: Pick<Services, 'actors'>,
  reserved: readonly ReservedIds[],
): Promise<Map<Uuid, CommandContext>> {
  const ids = reserved.map(({ command_id }) => command_id);
  const found = await actors.readAll<CommandContext>('command', ids);
  return new Map([...found].map(([id, { snapshot }]) => [id, snapshot.context]));
}

function targetResultOf(command: CommandContext, request: CommandRequest): TargetResult {
  const { id, messageId, confirmation, deviceId: device_id, refusal, safetyClass } = command.fixed;
  const { delivery } = command.live;
  if (refusal !== null) {
    const { code, detail } = refusal;
    return { ...failedResult(device_id, code, detail), command_id: id, status: 'rejected' };
  }
  if (confirmation === null && delivery === null) {
    // Only a repeat after a crash gets here: the dry run has ended.
    return {
      ...failedResult(device_id, 'CONFIRMATION_FAILED', `The command is ${command.live.status} already.`),
      command_id: id,
    };
  }
  if (confirmation === null) {
    return { device_id, success: true, command_id: id, message_id: messageId, status: 'dispatched' };
  }
  const { asked, reason, expiresAt, preview } = confirmation;
  return {
    device_id,
    success: asked,
    command_id: id,
    status: 'dry_run_required',
    dry_run_token: request.ids.dry_run_token,
    expires_at: iso(expiresAt),
    reason,
    preview: preview as z.infer<typeof previewBody>,
    ...(!asked && { error: reason }),
    // A requested dry run of a normal action is not a refusal.
    ...((!asked || safetyClass === 'CRITICAL') && { code: 'DRY_RUN_REQUIRED' }),
  };
}

const failedResult = (device_id: string, code: RefusalCode, error: string): TargetResult => ({
  device_id,
  success: false,
  error,
  code,
});

const isTransientFault = (fault: unknown): boolean =>
  fault instanceof StoreUnavailable || fault instanceof CommitUnknown || fault instanceof Overloaded;

/** `fault`, or a `CommitUnknown` that ends with the last commit in flight, if there is one. */
function combineUnknownCommits(fault: unknown, faults: readonly unknown[]): unknown {
  const open = faults.flatMap((one) => (one instanceof CommitUnknown && one.ended !== null ? [one.ended] : []));
  if (open.length === 0) return fault;
  return new CommitUnknown('commit outcome of some targets unknown', { ended: Promise.all(open).then(() => {}) });
}

function faultResult({ log }: Pick<Services, 'log'>, ids: ReservedIds, fault: unknown, caller: Caller): TargetResult {
  if (fault instanceof Overloaded)
    return failedResult(ids.device_id, 'OVERLOADED', 'The service is overloaded. Try again later.');
  if (isTransientFault(fault)) return failedResult(ids.device_id, 'STORE_UNAVAILABLE', 'The store did not answer.');
  log.error({ request_id: caller.requestId, command_id: ids.command_id, err: fault }, 'batch target failed');
  return failedResult(ids.device_id, 'GATEWAY_ERROR', 'Internal error.');
}
