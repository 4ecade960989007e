import { z } from 'zod';
import { ActorExists, Overloaded } from '../../actors/contract.ts';
import { done, type Outcome, type RefusalCode, refusals, refuse } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { CommandContext } from '../../machines/command-types.ts';
import { CommitUnknown, StoreUnavailable } from '../../store/contract.ts';
import { findRequestedRelease } from '../firmware/firmware-facts.ts';
import { iso, isoTime, isUuid, notFound, notFoundDetails } from '../inputs.ts';
import { type Call, type Caller, type Services, tenantOf } from '../operation.ts';
import {
  type CommandInput,
  type CommandRequest,
  type ReservedIds,
  requestCommand,
  reservedIds,
  reserveIds,
} from './command-request.ts';
import { earlyRefusal, loadTargets, readTenant } from './gateway-facts.ts';

// One request for many devices: every target passes the gateway on its own, and one that fails fails alone.

export const MAX_TARGETS = 500;

/** What became of one target. */
export const targetResult = z.object({
  device_id: z.string(),
  success: z.boolean(),
  command_id: z.uuid().optional(),
  message_id: z.uuid().optional(),
  status: z.enum(['dispatched', 'rejected', 'dry_run_required']).optional(),
  dry_run_token: z.uuid().optional(),
  expires_at: isoTime.optional(),
  error: z.string().optional().meta({ description: 'A sentence' }),
  code: z.enum(Object.keys(refusals) as [RefusalCode]).optional(),
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
  return room === null ? notFound('room') : checkTargetCount(await store.devices.inRoom(tenantId, roomId, category));
}

export async function groupDeviceIds(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  slug: string,
): Promise<Outcome<Uuid[]>> {
  const group = await store.records.group(tenantOf(caller), slug);
  return group === null ? notFound('group') : checkTargetCount(group.deviceIds);
}

const checkTargetCount = (ids: Uuid[]): Outcome<Uuid[]> =>
  ids.length <= MAX_TARGETS
    ? done(ids)
    : refuse('VALIDATION_FAILED', `${ids.length} devices are more than the ${MAX_TARGETS} that one request may have.`);

/**
 * Commands every target side by side. With an idempotency key their ids are kept before anything happens: a repeat of
 * a request that was cut off finds the commands that exist and makes the missing ones under the ids they were to have.
 */
export async function commandTargets(
  services: Services,
  { caller, idempotent }: Pick<Call<unknown>, 'caller' | 'idempotent'>,
  wish: CommandInput,
  targetIds: () => Promise<Outcome<string[]>>,
): Promise<Outcome<TargetResult[]>> {
  const resumed = idempotent?.reserved ? z.array(reservedIds).parse(idempotent.reserved) : null;
  const ids = resumed === null ? await targetIds() : done(resumed.map(({ device_id }) => device_id));
  if (!ids.ok) return ids;
  const plans = resumed ?? ids.value.map((id) => reserveIds(services, id));
  if (resumed === null) await idempotent?.reserve(plans);

  const [tenant, targets, made, release] = await Promise.all([
    readTenant(services, caller),
    loadTargets(
      services,
      caller,
      ids.value.filter((id) => isUuid(id)),
    ),
    findExisting(services, resumed ?? []),
    findRequestedRelease(services, caller, wish),
  ]);
  const missing = earlyRefusal(services, tenant, null) ?? {
    code: 'NOT_FOUND' as const,
    detail: notFoundDetails.device,
  };
  const tries = await Promise.allSettled(
    plans.map(async (plan): Promise<TargetResult> => {
      const target = targets.get(plan.device_id);
      if (target === undefined) return failedResult(plan.device_id, missing.code, missing.detail);
      const asked: CommandRequest = { tenant, target, input: wish, ids: plan, release };
      return targetResultOf(made.get(plan.command_id) ?? (await createOrFind(services, caller, asked)), asked);
    }),
  );
  const faults = tries.flatMap((tried) => (tried.status === 'rejected' ? [tried.reason] : []));
  // A repeat of the request may still find the store back: nothing is final that a fault of the moment left out.
  const passing = faults.find(isTransientFault);
  if (passing !== undefined && (idempotent !== null || faults.length === plans.length))
    throw combineUnknownCommits(passing, faults);
  return done(
    tries.map((tried, index) =>
      tried.status === 'fulfilled'
        ? tried.value
        : faultResult(services, plans[index] as ReservedIds, tried.reason, caller),
    ),
  );
}

/** An earlier try may commit the command after `madeBefore` has looked. */
async function createOrFind(services: Services, caller: Caller, asked: CommandRequest): Promise<CommandContext> {
  try {
    return await requestCommand(services, caller, asked);
  } catch (fault) {
    const { command_id: id } = asked.ids;
    const found = fault instanceof ActorExists ? (await findExisting(services, [asked.ids])).get(id) : undefined;
    if (found === undefined) throw fault;
    return found;
  }
}

/** The commands of an earlier try, by id. */
async function findExisting(
  { actors }: Pick<Services, 'actors'>,
  plans: readonly ReservedIds[],
): Promise<Map<Uuid, CommandContext>> {
  const ids = plans.map(({ command_id }) => command_id);
  const found = await actors.readAll<CommandContext>('command', ids);
  return new Map([...found].map(([id, { snapshot }]) => [id, snapshot.context]));
}

function targetResultOf(command: CommandContext, asked: CommandRequest): TargetResult {
  const { id, messageId, confirmation, deviceId: device_id, delivery, refusal } = command;
  if (refusal !== null) {
    const { code, detail } = refusal;
    return { ...failedResult(device_id, code, detail), command_id: id, status: 'rejected' };
  }
  if (confirmation === null && delivery === null) {
    // Only a repeat after a crash finds it so: its dry run is over.
    return {
      ...failedResult(device_id, 'CONFIRMATION_FAILED', `The command is ${command.status} by now.`),
      command_id: id,
    };
  }
  if (confirmation === null) {
    return { device_id, success: true, command_id: id, message_id: messageId, status: 'dispatched' };
  }
  return {
    device_id,
    success: confirmation.asked,
    command_id: id,
    status: 'dry_run_required',
    dry_run_token: asked.ids.dry_run_token,
    expires_at: iso(confirmation.expiresAt),
    ...(!confirmation.asked && { error: confirmation.reason }),
    code: 'DRY_RUN_REQUIRED',
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

/** `fault`, or, where commits of any target are in flight, one that ends with the last of them. */
function combineUnknownCommits(fault: unknown, faults: readonly unknown[]): unknown {
  const open = faults.flatMap((one) => (one instanceof CommitUnknown && one.ended !== null ? [one.ended] : []));
  if (open.length === 0) return fault;
  return new CommitUnknown('the outcome of some targets is not known', { ended: Promise.all(open).then(() => {}) });
}

function faultResult({ log }: Services, plan: ReservedIds, fault: unknown, caller: Caller): TargetResult {
  if (fault instanceof Overloaded)
    return failedResult(plan.device_id, 'OVERLOADED', 'Too much is waiting here; try again.');
  if (isTransientFault(fault)) return failedResult(plan.device_id, 'STORE_UNAVAILABLE', 'The store did not answer.');
  log.error({ request_id: caller.requestId, command_id: plan.command_id, err: fault }, 'a target of a batch failed');
  return failedResult(plan.device_id, 'GATEWAY_ERROR', 'Something went wrong on our side.');
}
