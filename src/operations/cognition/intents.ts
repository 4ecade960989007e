import { z } from 'zod';
import { refusalCodeSchema } from '../../domain/enum-schemas.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { isCanonicalUuid } from '../../domain/uuid.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import type { PlanContext } from '../../machines/plan-types.ts';
import {
  commandTargets,
  groupDeviceIds,
  roomDeviceIds,
  type TargetResult,
  targetStatus,
} from '../commands/batch-dispatch.ts';
import { commandFields } from '../commands/command-request.ts';
import { earlyRefusal, readTenant } from '../commands/gateway-facts.ts';
import { findDevice } from '../devices/device-view.ts';
import { category, isoTime, notFound } from '../inputs.ts';
import { type Answer, type Call, type Caller, operation, type Services } from '../operation.ts';
import { type PlanInput, planFields, toStepInputs } from '../plans/plan-input.ts';
import { loadStepTargets, startPlanFromInput } from '../plans/plans.ts';
import { goalFields, mode, modeOf, startGoal } from './goals.ts';

// Intents. Those with explicit targets need no sidecar: they are dispatched as a batch of commands, or as a plan.

// An unknown id in a body is NOT_FOUND, also if it is not a UUID.
const id = z.string().min(1).max(64).toLowerCase();
const { action, params } = commandFields;

const deviceControl = z.strictObject({
  type: z.literal('device.control'),
  payload: z.strictObject({ device_id: id, action, params }),
});
const roomControl = z.strictObject({
  type: z.literal('room.control'),
  payload: z.strictObject({ room_id: id, action, params, capability: category.optional() }),
});
const groupControl = z.strictObject({
  type: z.literal('group.control'),
  payload: z.strictObject({ slug: id, action, params }),
});
const planExecute = z.strictObject({
  type: z.literal('plan.execute'),
  payload: z.strictObject({ plan: z.strictObject(planFields) }),
});
const goal = z.strictObject({
  type: z.literal('goal').meta({ description: 'Requires a sidecar' }),
  payload: z.strictObject(goalFields),
});

const intent = z
  .discriminatedUnion('type', [deviceControl, roomControl, groupControl, planExecute, goal], {
    error: ({ code }) => (code === 'invalid_union' ? 'is not a known intent type' : undefined),
  })
  .meta({ description: 'An unknown `type` is refused.' });
type Intent = z.infer<typeof intent>;

const result = z
  .object({
    device_id: z.string(),
    action: z.string(),
    status: targetStatus,
    command_id: uuid
      .optional()
      .meta({ description: 'The command, if one was created; rejected commands are recorded too' }),
    dry_run_token: uuid.optional().meta({ description: 'With `dry_run_required`: the token that confirms it' }),
    expires_at: isoTime.optional(),
    error: z.string().optional().meta({ description: 'Reason of the rejection, in one sentence' }),
    code: refusalCodeSchema.optional(),
  })
  .meta({ id: 'IntentResult' });
type Result = z.infer<typeof result>;

const intentAnswer = z
  .object({
    status: z.enum(['SUCCESS', 'PARTIAL', 'REJECTED', 'PENDING']).meta({
      description:
        '`PENDING`: a plan was started, or a command waits for confirmation. Otherwise `SUCCESS`: all commands were dispatched, or there were none; ' +
        '`REJECTED`: all were rejected; `PARTIAL`: some were rejected',
    }),
    mode,
    commands_executed: z.int().meta({ description: 'Dispatched' }),
    commands_rejected: z.int(),
    results: z.array(result),
    plan_id: uuid.optional().meta({ description: 'The started plan; `GET /plans/{id}` shows its progress' }),
  })
  .meta({ id: 'IntentOutcome' });

export const postIntent = operation({
  name: 'postIntent',
  summary: 'Command a device, a room or a group, run a plan, or set a goal',
  input: intent,
  output: intentAnswer,
  role: 'user',
  scope: 'execute:intents',
  restrictedKeys: 'actions',
  alsoScope: 'execute:commands',
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND', 'CONFLICT', 'COMMANDS_DISABLED', 'COGNITION_DISABLED', 'SIDECAR_UNAVAILABLE'],
  example: {
    input: {
      type: 'device.control',
      payload: { device_id: '0195d9a2-7f00-7000-8000-000000000001', action: 'set_brightness', params: { level: 40 } },
    },
    output: {
      status: 'SUCCESS',
      mode: 'CLOUD_DIRECT',
      commands_executed: 1,
      commands_rejected: 0,
      results: [
        {
          device_id: '0195d9a2-7f00-7000-8000-000000000001',
          action: 'set_brightness',
          status: 'dispatched',
          command_id: '0195d9a2-7f00-7000-8000-000000000006',
        },
      ],
    },
  },
  needs: [
    'actors',
    'artifacts',
    'clock',
    'flags',
    'locks',
    'log',
    'manifests',
    'newId',
    'seal',
    'sessions',
    'sidecar',
    'store',
  ],
  async run(services, call) {
    const { input } = call;
    if (call.caller.restriction !== undefined && (input.type === 'goal' || input.type === 'plan.execute'))
      return refuse('KEY_RESTRICTED', 'Plans and goals are not for keys that are restricted.');
    if (input.type === 'goal') return submitGoal(services, call, input.payload);
    if (input.type === 'plan.execute') return executePlan(services, call, input.payload.plan);
    const { action, params } = input.payload;
    const command = { action, ...(params !== undefined && { params }) };
    const entries = await commandTargets(services, call, command, () => targetDeviceIds(services, call, input));
    if (!entries.ok) return entries;
    const results = entries.value.map((entry) => resultOf(entry, action));
    const count = (status: Result['status']) => results.filter((one) => one.status === status).length;
    const body = {
      status: statusOf(input.type === 'room.control' ? withoutRevoked(results) : results),
      mode: modeOf(services),
      commands_executed: count('dispatched'),
      commands_rejected: count('rejected'),
      results,
    };
    return done({ body });
  },
});

/** Starts the plan; its commands are reported by the plan. */
async function executePlan(
  services: Pick<Services, 'actors' | 'clock' | 'manifests' | 'newId' | 'seal' | 'sessions' | 'sidecar'>,
  { caller, idempotent }: Pick<Call<unknown>, 'caller' | 'idempotent'>,
  input: PlanInput,
): Promise<Outcome<Answer<z.infer<typeof intentAnswer>>>> {
  const targets = await loadStepTargets(services, caller, toStepInputs(input));
  if (!targets.ok) return targets;
  const answer = pendingAnswer(services);
  return done(
    answer(
      await startPlanFromInput(
        services,
        caller,
        { input, targets: targets.value },
        (plan) => idempotent?.toRow(answer(plan)) ?? null,
      ),
    ),
  );
}

/** Passes the goal to the sidecar. */
async function submitGoal(
  services: Pick<Services, 'actors' | 'clock' | 'flags' | 'locks' | 'newId' | 'seal' | 'sidecar' | 'store'>,
  { caller, idempotent }: Pick<Call<unknown>, 'caller' | 'idempotent'>,
  goal: z.infer<z.ZodObject<typeof goalFields>>,
): Promise<Outcome<Answer<z.infer<typeof intentAnswer>>>> {
  const answer = pendingAnswer(services);
  const plan = await startGoal(services, caller, goal, (created) => idempotent?.toRow(answer(created)) ?? null);
  return plan.ok ? done(answer(plan.value)) : plan;
}

const pendingAnswer =
  (services: Pick<Services, 'sidecar'>) =>
  ({ fixed: { id } }: PlanContext): Answer<z.infer<typeof intentAnswer>> => ({
    body: {
      ...{ status: 'PENDING' as const, mode: modeOf(services), plan_id: id },
      ...{ commands_executed: 0, commands_rejected: 0, results: [] },
    },
  });

async function targetDeviceIds(
  services: Pick<Services, 'actors' | 'flags' | 'store'>,
  { caller }: Pick<Call<unknown>, 'caller'>,
  { type, payload }: Exclude<Intent, { type: 'goal' | 'plan.execute' }>,
): Promise<Outcome<Uuid[]>> {
  switch (type) {
    case 'device.control':
      return singleDeviceId(services, caller, payload.device_id);
    case 'room.control':
      if (!isCanonicalUuid(payload.room_id)) return notFound('room');
      return roomDeviceIds(services, caller, payload.room_id, payload.capability);
    case 'group.control':
      return groupDeviceIds(services, caller, payload.slug);
  }
}

async function singleDeviceId(
  services: Pick<Services, 'actors' | 'flags'>,
  caller: Caller,
  deviceId: string,
): Promise<Outcome<Uuid[]>> {
  const found = isCanonicalUuid(deviceId) ? await findDevice(services, caller, deviceId) : notFound('device');
  if (found.ok) return done([deviceId]);
  const early = earlyRefusal(services, await readTenant(services, caller), null);
  return { ok: false, refusal: early ?? found.refusal };
}

function resultOf({ device_id, command_id, success, status, ...more }: TargetResult, action: string): Result {
  const { dry_run_token, expires_at, error, code } = more;
  const ids = { device_id, action, ...(command_id !== undefined && { command_id }) };
  if (status === 'dry_run_required') return { ...ids, status, dry_run_token, expires_at };
  return success ? { ...ids, status: 'dispatched' } : { ...ids, status: 'rejected', error, code };
}

/** A revoked device keeps its room: its refusal is no failure of a request to the others. */
function withoutRevoked(results: readonly Result[]): readonly Result[] {
  const others = results.filter((one) => one.status !== 'rejected' || one.code !== 'DEVICE_REVOKED');
  return others.length === 0 ? results : others;
}

function statusOf(results: readonly Result[]): z.infer<typeof intentAnswer>['status'] {
  const has = (status: Result['status']) => results.some((one) => one.status === status);
  if (has('dry_run_required')) return 'PENDING';
  if (!has('rejected')) return 'SUCCESS';
  return has('dispatched') ? 'PARTIAL' : 'REJECTED';
}
