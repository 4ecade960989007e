import { z } from 'zod';
import { INVISIBLE_CHARACTER } from '../../domain/memory.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { isCanonicalUuid } from '../../domain/uuid.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import type { PlanContext } from '../../machines/plan-types.ts';
import type { IdempotencyRow } from '../../store/contract.ts';
import { commandFields } from '../commands/command-request.ts';
import { loadTarget } from '../commands/gateway-facts.ts';
import { idOf, notFound } from '../inputs.ts';
import { type Caller, operation, type Services, tenantOf } from '../operation.ts';
import { type NewPlan, startPlan } from '../plans/plans.ts';
import { plannerParamsRefusal } from './step-validation.ts';

// Requests to the sidecar: a goal, or a request for one device. Each starts as a plan without steps.

export const mode = z
  .enum(['CLOUD_DIRECT', 'CLOUD_ENHANCED'])
  .meta({ description: '`CLOUD_ENHANCED` while a sidecar is connected' });
export const modeOf = ({ sidecar }: Pick<Services, 'sidecar'>): z.infer<typeof mode> =>
  sidecar.connected() ? 'CLOUD_ENHANCED' : 'CLOUD_DIRECT';

const visibleText = (max: number) =>
  z
    .string()
    .max(max)
    .refine((text) => !INVISIBLE_CHARACTER.test(text), 'must not contain control or invisible characters');

/** A required text for the sidecar, without characters that a person would not see. */
const requiredText = (max: number) => visibleText(max).min(1).regex(/\S/, 'must not be blank');

/** An optional note for the sidecar. */
export const note = visibleText(4_000).optional().meta({ description: 'Further information for the sidecar' });

export const goalFields = { text: requiredText(4_000), home_id: z.string().min(1).max(64).toLowerCase().optional() };

const MAX_NAME = 100;

/** The plan's name: the start of the goal, on one line. */
const nameOf = (text: string): string => Array.from(text.replace(/\s+/gu, ' ').trim()).slice(0, MAX_NAME).join('');

/** The refusal if no sidecar is connected, else null. */
export const sidecarRefusal = ({ sidecar }: Pick<Services, 'sidecar'>) =>
  sidecar.connected() ? null : refuse('SIDECAR_UNAVAILABLE', 'No sidecar is connected.');

/** Open goals and device requests of one tenant. */
const MAX_OPEN_GOALS = 500;

/** Starts a plan for the sidecar, unless the tenant has too many open ones. */
async function startCognitivePlan(
  services: Pick<Services, 'actors' | 'clock' | 'locks' | 'newId' | 'seal' | 'store'>,
  caller: Caller,
  plan: NewPlan,
  row: Row,
): Promise<Outcome<PlanContext>> {
  const { locks, store } = services;
  const tenantId = tenantOf(caller);
  return locks.exclusive(`goals:${tenantId}`, async () => {
    const { items } = await store.plans.awaitingPlanner(MAX_OPEN_GOALS, undefined, tenantId);
    if (items.length >= MAX_OPEN_GOALS) {
      return refuse(
        'CONFLICT',
        `The tenant has ${MAX_OPEN_GOALS} open goals, the maximum: wait, or cancel some of their plans.`,
      );
    }
    return done(await startPlan(services, caller, plan, row));
  });
}

type Row = (plan: PlanContext) => IdempotencyRow | null;

/** Starts the plan of an intent of type `goal`. */
export async function startGoal(
  services: Pick<Services, 'actors' | 'clock' | 'flags' | 'locks' | 'newId' | 'seal' | 'sidecar' | 'store'>,
  caller: Caller,
  { text, home_id }: z.infer<z.ZodObject<typeof goalFields>>,
  row: Row,
): Promise<Outcome<PlanContext>> {
  if (services.flags().cognition_disabled) {
    return refuse('COGNITION_DISABLED', 'The cognitive layer is disabled.');
  }
  const homeId = home_id ?? null;
  if (homeId !== null && !(await hasHome(services, caller, homeId))) return notFound('home');
  const unavailable = sidecarRefusal(services);
  if (unavailable !== null) return unavailable;
  const cognition = { kind: 'goal', homeId, deviceId: null, text, action: null, note: null, proposalId: null } as const;
  return startCognitivePlan(services, caller, { name: nameOf(text), onFailure: 'rollback', steps: [], cognition }, row);
}

const hasHome = async ({ store }: Pick<Services, 'store'>, caller: Caller, id: Uuid): Promise<boolean> =>
  isCanonicalUuid(id) && (await store.records.home(tenantOf(caller), id)) !== null;

const { action, params } = commandFields;

export const orchestrateCommand = operation({
  name: 'orchestrateCommand',
  summary: 'Have the sidecar plan for one device: a goal as text, or an action with parameters',
  input: z
    .strictObject({
      id: idOf('device'),
      goal: requiredText(4_000).optional().meta({ description: 'The goal as text; alternatively `action`' }),
      action: action.optional(),
      params,
      context: note,
    })
    .refine(({ goal, action }) => (goal === undefined) !== (action === undefined), {
      path: ['goal'],
      message: 'exactly one of goal and action is required',
    })
    .refine(({ goal, params }) => goal === undefined || params === undefined, {
      path: ['params'],
      message: 'is allowed only with an action',
    }),
  bodyRules: {
    oneOf: [{ required: ['goal'] }, { required: ['action'] }],
    dependentRequired: { params: ['action'] },
  },
  output: z
    .object({ status: z.literal('ACCEPTED'), plan_id: uuid, device_id: uuid, mode })
    .meta({ id: 'Orchestrated' }),
  role: 'admin',
  scope: 'execute:commands',
  changes: true,
  audit: 'journal',
  stoppedBy: 'cognition_disabled',
  refuses: ['NOT_FOUND', 'PARAMS_INVALID', 'CONFLICT', 'SIDECAR_UNAVAILABLE'],
  example: {
    input: { goal: 'Dim the light for the film.', context: 'Two people watch.' },
    output: {
      status: 'ACCEPTED',
      plan_id: '0195d9a2-7f00-7000-8000-00000000000d',
      device_id: '0195d9a2-7f00-7000-8000-000000000001',
      mode: 'CLOUD_ENHANCED',
    },
  },
  needs: ['actors', 'clock', 'locks', 'manifests', 'newId', 'seal', 'sessions', 'sidecar', 'store'],
  async run(services, { input, caller, idempotent }) {
    const found = await loadTarget(services, caller, input.id);
    if (!found.ok) return found;
    const { device, manifest } = found.value;
    const refused = plannerParamsRefusal(manifest, { action: input.action ?? '', params: input.params ?? {} });
    if (refused !== null) return refused;
    const unavailable = sidecarRefusal(services);
    if (unavailable !== null) return unavailable;
    const { homeId } = device.snapshot.context.fixed;
    const { goal: text = null, action, params = {}, context } = input;
    const requestedAction = action === undefined ? null : { action, params };
    const answer = ({ fixed: { id } }: PlanContext) => ({
      body: { status: 'ACCEPTED' as const, plan_id: id, device_id: input.id, mode: modeOf(services) },
    });
    const plan = await startCognitivePlan(
      services,
      caller,
      {
        ...{ name: text === null ? (action ?? null) : nameOf(text), onFailure: 'rollback', steps: [] },
        cognition: {
          kind: 'device',
          homeId,
          deviceId: input.id,
          text,
          action: requestedAction,
          note: context || null,
          proposalId: null,
        },
      },
      (created) => idempotent?.toRow(answer(created)) ?? null,
    );
    return plan.ok ? done(answer(plan.value)) : plan;
  },
});
