import { z } from 'zod';
import { ActorExists, Overloaded } from '../actors/contract.ts';
import { done, type Outcome, type RefusalCode, refusals, refuse } from '../domain/refusals.ts';
import type { Uuid } from '../domain/values.ts';
import type { CommandContext } from '../machines/command-types.ts';
import { CommitUnknown, StoreUnavailable } from '../store/contract.ts';
import { type Asked, type Planned, plan, planned, request, type Wish } from './dispatch.ts';
import { barredBefore, targetsOf, tenantFacts } from './facts.ts';
import { releaseNamed } from './firmware-facts.ts';
import { iso, isoTime, isUuid, notFound, nouns } from './inputs.ts';
import { type Call, type Caller, type Services, tenantOf } from './operation.ts';

// One request for many devices: every target passes the gateway on its own, and one that fails fails alone.

export const MAX_TARGETS = 500;

/** What became of one target. */
export const entry = z.object({
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
export type Entry = z.infer<typeof entry>;

/** The devices of a room, or those of one category in it. */
export async function roomTargets(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  roomId: Uuid,
  category?: string,
): Promise<Outcome<Uuid[]>> {
  const tenantId = tenantOf(caller);
  const room = await store.records.room(tenantId, roomId);
  return room === null ? notFound('room') : bounded(await store.devices.inRoom(tenantId, roomId, category));
}

export async function groupTargets(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  slug: string,
): Promise<Outcome<Uuid[]>> {
  const group = await store.records.group(tenantOf(caller), slug);
  return group === null ? notFound('group') : bounded(group.deviceIds);
}

const bounded = (ids: Uuid[]): Outcome<Uuid[]> =>
  ids.length <= MAX_TARGETS
    ? done(ids)
    : refuse('VALIDATION_FAILED', `${ids.length} devices are more than the ${MAX_TARGETS} that one request may have.`);

/**
 * Commands every target side by side. With an idempotency key their ids are kept before anything happens: a repeat of
 * a request that was cut off finds the commands that exist and makes the missing ones under the ids they were to have.
 */
export async function commandAll(
  services: Services,
  { caller, idempotent }: Pick<Call<unknown>, 'caller' | 'idempotent'>,
  wish: Wish,
  targetIds: () => Promise<Outcome<string[]>>,
): Promise<Outcome<Entry[]>> {
  const resumed = idempotent?.resumed ? z.array(planned).parse(idempotent.resumed) : null;
  const ids = resumed === null ? await targetIds() : done(resumed.map(({ device_id }) => device_id));
  if (!ids.ok) return ids;
  const plans = resumed ?? ids.value.map((id) => plan(services, id));
  if (resumed === null) await idempotent?.begin(plans);

  const [tenant, targets, made, release] = await Promise.all([
    tenantFacts(services, caller),
    targetsOf(
      services,
      caller,
      ids.value.filter((id) => isUuid(id)),
    ),
    madeBefore(services, resumed ?? []),
    releaseNamed(services, caller, wish),
  ]);
  const missing = barredBefore(services, tenant, null) ?? { code: 'NOT_FOUND' as const, detail: nouns.device };
  const tries = await Promise.allSettled(
    plans.map(async (plan): Promise<Entry> => {
      const target = targets.get(plan.device_id);
      if (target === undefined) return failed(plan.device_id, missing.code, missing.detail);
      const asked: Asked = { tenant, target, wish, planned: plan, release };
      return entryOf(made.get(plan.command_id) ?? (await make(services, caller, asked)), asked);
    }),
  );
  const faults = tries.flatMap((tried) => (tried.status === 'rejected' ? [tried.reason] : []));
  // A repeat of the request may still find the store back: nothing is final that a fault of the moment left out.
  const passing = faults.find(isPassing);
  if (passing !== undefined && (idempotent !== null || faults.length === plans.length)) throw allEnded(passing, faults);
  return done(
    tries.map((tried, index) =>
      tried.status === 'fulfilled' ? tried.value : faultEntry(services, plans[index] as Planned, tried.reason, caller),
    ),
  );
}

/** An earlier try may commit the command after `madeBefore` has looked. */
async function make(services: Services, caller: Caller, asked: Asked): Promise<CommandContext> {
  try {
    return await request(services, caller, asked);
  } catch (fault) {
    const { command_id: id } = asked.planned;
    const found = fault instanceof ActorExists ? (await madeBefore(services, [asked.planned])).get(id) : undefined;
    if (found === undefined) throw fault;
    return found;
  }
}

/** The commands of an earlier try, by id. */
async function madeBefore(
  { actors }: Pick<Services, 'actors'>,
  plans: readonly Planned[],
): Promise<Map<Uuid, CommandContext>> {
  const ids = plans.map(({ command_id }) => command_id);
  const found = await actors.readAll<CommandContext>('command', ids);
  return new Map([...found].map(([id, { snapshot }]) => [id, snapshot.context]));
}

function entryOf(command: CommandContext, asked: Asked): Entry {
  const { id, messageId, confirmation, deviceId: device_id, delivery, refusal } = command;
  if (refusal !== null) {
    const { code, detail } = refusal;
    return { ...failed(device_id, code, detail), command_id: id, status: 'rejected' };
  }
  if (confirmation === null && delivery === null) {
    // Only a repeat after a crash finds it so: its dry run is over.
    return { ...failed(device_id, 'CONFIRMATION_FAILED', `The command is ${command.status} by now.`), command_id: id };
  }
  if (confirmation === null) {
    return { device_id, success: true, command_id: id, message_id: messageId, status: 'dispatched' };
  }
  return {
    device_id,
    success: confirmation.asked,
    command_id: id,
    status: 'dry_run_required',
    dry_run_token: asked.planned.dry_run_token,
    expires_at: iso(confirmation.expiresAt),
    ...(!confirmation.asked && { error: confirmation.reason }),
    code: 'DRY_RUN_REQUIRED',
  };
}

const failed = (device_id: string, code: RefusalCode, error: string): Entry => ({
  device_id,
  success: false,
  error,
  code,
});

const isPassing = (fault: unknown): boolean =>
  fault instanceof StoreUnavailable || fault instanceof CommitUnknown || fault instanceof Overloaded;

/** `fault`, or, where commits of any target are in flight, one that ends with the last of them. */
function allEnded(fault: unknown, faults: readonly unknown[]): unknown {
  const open = faults.flatMap((one) => (one instanceof CommitUnknown && one.ended !== null ? [one.ended] : []));
  if (open.length === 0) return fault;
  return new CommitUnknown('the outcome of some targets is not known', { ended: Promise.all(open).then(() => {}) });
}

function faultEntry({ log }: Services, plan: Planned, fault: unknown, caller: Caller): Entry {
  if (fault instanceof Overloaded) return failed(plan.device_id, 'OVERLOADED', 'Too much is waiting here; try again.');
  if (isPassing(fault)) return failed(plan.device_id, 'STORE_UNAVAILABLE', 'The store did not answer.');
  log.error({ request_id: caller.requestId, command_id: plan.command_id, err: fault }, 'a target of a batch failed');
  return failed(plan.device_id, 'GATEWAY_ERROR', 'Something went wrong on our side.');
}
