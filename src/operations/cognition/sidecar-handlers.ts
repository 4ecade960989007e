import { SUSPENSION_S } from '../../domain/cognition.ts';
import { checkJson } from '../../domain/json/strict.ts';
import { jsonBytes, jsonEqual } from '../../domain/json/value.ts';
import { INVISIBLE_CHARACTER } from '../../domain/memory.ts';
import { graphErrors, MAX_STEPS } from '../../domain/plan.ts';
import type { Proposal } from '../../domain/proposal.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { isCanonicalUuid } from '../../domain/uuid.ts';
import type { Json, JsonObject, Principal, Uuid } from '../../domain/values.ts';
import type { PlannerEventType } from '../../machines/plan-cognition.ts';
import type { PlanEvent, StepInput } from '../../machines/plan-types.ts';
import type { ProposalChanges } from '../../store/contract/proposals.ts';
import { refusalOf } from '../faults.ts';
import type { Caller, Services } from '../operation.ts';
import { type CreatorServices, loadCreator } from '../plans/plan-step-resolver.ts';
import { sendToActor } from '../send-to-actor.ts';
import { activeContextOf, type ContextSource, cognitionRefusal, findContext, tenantOfContext } from './contexts.ts';
import type { ActiveContext, Cognition } from './contract.ts';
import { notifyNodeChange } from './sidecar-events.ts';
import { type StepValidationServices, validateProposedStep } from './step-validation.ts';
import type { WakeTimers } from './wake-timers.ts';

// Handlers for the sidecar's requests. All input is untrusted, and none of them can confirm, accept or cancel anything.

const SIDECAR: Principal = { kind: 'system', id: 'sidecar' };
const MAX_TEXT = 1_000;
const MAX_FINAL_STATE_BYTES = 16 * 1024;

/** Services that handle the events of a sidecar. */
export type SidecarServices = StepValidationServices &
  CreatorServices &
  Pick<Services, 'clock' | 'locks' | 'log' | 'sidecar'>;

type SidecarHandlers = Pick<Cognition, 'propose' | 'suspend' | 'complete' | 'fail'>;
type SidecarEvent = Extract<PlanEvent, { type: PlannerEventType }>;
type SidecarEventInput = SidecarEvent extends infer One
  ? One extends SidecarEvent
    ? Omit<One, 'at' | 'by'>
    : never
  : never;

export function makeSidecarHandlers(services: SidecarServices, wakeTimers: WakeTimers): SidecarHandlers {
  const { locks, log, clock, store } = services;

  /** Runs a handler for an active context: serialized by context, in order of arrival; never throws. */
  async function handle<T>(
    contextId: Uuid,
    handler: (found: ContextSource, active: ActiveContext) => Promise<Outcome<T>>,
  ): Promise<Outcome<T>> {
    if (!isCanonicalUuid(contextId)) return unknownContext();
    try {
      return await locks.exclusive(`context:${contextId}`, async () => {
        const found = await findContext(services, contextId);
        if (found === null) return unknownContext();
        const refusal = await cognitionRefusal(services, tenantOfContext(found));
        if (refusal !== null) return { ok: false, refusal };
        const active = activeContextOf(services, found);
        if (active === null) return refuse('CONFLICT', 'The context has ended.');
        return handler(found, active);
      });
    } catch (thrown) {
      return { ok: false, refusal: refusalOf(thrown, log, { request_id: contextId, operation: 'sidecar' }) };
    }
  }

  const sendToPlan = (id: Uuid, event: SidecarEventInput) =>
    sendToActor(services, { kind: 'plan', id }, { ...event, at: clock.now(), by: SIDECAR } as SidecarEvent, undefined, {
      allowNoOp: true,
    });

  async function change(id: Uuid, changes: ProposalChanges): Promise<Outcome<Proposal>> {
    const changed = await store.proposals.change(id, changes);
    if (changed === null) return refuse('CONFLICT', 'The context has ended.');
    if (changed.phase !== 'suspended') wakeTimers.clear(id);
    return done(changed);
  }

  async function add(proposal: Proposal, node: StepInput): Promise<Outcome<{ repeat: boolean }>> {
    const { id, steps } = proposal;
    const known = steps.find((step) => step.id === node.id);
    if (known && jsonEqual(known as unknown as Json, node as unknown as Json)) return done({ repeat: true });
    const error = nodeError(steps, node, known !== undefined);
    if (error !== null) return refuse('VALIDATION_FAILED', error);
    const changed = await change(id, { steps: [...steps, node], phase: 'thinking' });
    if (!changed.ok) return changed;
    notifyNodeChange(services, proposal, node.id, null, 'pending');
    return done({ repeat: false });
  }

  return {
    propose: (contextId, given) =>
      handle(contextId, async (found, { kind, homeId, deviceId }) => {
        const caller = await authorityOf(services, found);
        if (!caller.ok) return caller;
        const { steps } = 'plan' in found ? found.plan.snapshot.context.live : found.proposal;
        const scope = { reach: { kind, homeId, deviceId }, caller: caller.value, steps };
        const node = await validateProposedStep(services, given, scope);
        if (!node.ok) return node;
        if ('proposal' in found) return add(found.proposal, node.value);
        const reply = await sendToPlan(contextId, { type: 'node.proposed', node: node.value });
        return reply.ok ? done({ repeat: !reply.value.understood }) : reply;
      }),

    suspend: (contextId, { reason, forS }) =>
      handle(contextId, async (found) => {
        const seconds = forS ?? SUSPENSION_S.default;
        if (!(seconds >= 1 && seconds <= SUSPENSION_S.max)) {
          return refuse('VALIDATION_FAILED', `A suspension must last 1 to ${SUSPENSION_S.max} seconds.`);
        }
        const forMs = Math.round(seconds * 1_000);
        if ('plan' in found) {
          return noValue(
            await sendToPlan(contextId, { type: 'cognition.suspended', reason: sanitizeSidecarText(reason), forMs }),
          );
        }
        const changed = await change(contextId, { phase: 'suspended' });
        if (changed.ok) wakeTimers.set(contextId, clock.now() + forMs);
        return noValue(changed);
      }),

    complete: (contextId, { summary, finalState = null }) =>
      handle(contextId, async (found) => {
        const error = finalState === null ? null : finalStateError(finalState);
        if (error !== null) return refuse('VALIDATION_FAILED', error);
        const text = sanitizeSidecarText(summary);
        if ('plan' in found) {
          return noValue(await sendToPlan(contextId, { type: 'cognition.completed', summary: text, finalState }));
        }
        const reason = text === '' ? null : text;
        return noValue(
          await change(contextId, { phase: 'done', spokenAt: clock.now(), ...(reason !== null && { reason }) }),
        );
      }),

    fail: (contextId, { code, detail }) =>
      handle(contextId, async (found) => {
        const text = sanitizeSidecarText(detail) || 'The sidecar failed without a reason.';
        if ('plan' in found) {
          const error = { code: /^[A-Z][A-Z0-9_]{0,63}$/.test(code) ? code : 'SIDECAR_ERROR', detail: text };
          return noValue(await sendToPlan(contextId, { type: 'cognition.failed', error }));
        }
        // An incomplete proposal must not be accepted.
        return noValue(await change(contextId, { phase: 'done', spokenAt: clock.now(), reason: text, steps: [] }));
      }),
  };
}

const unknownContext = () => refuse('NOT_FOUND', 'No active context with this id.');

const noValue = (outcome: Outcome<unknown>): Outcome<null> => (outcome.ok ? done(null) : outcome);

/** The caller whose permissions apply to a step: the plan's creator. A proposal has none until a user accepts it. */
async function authorityOf(services: CreatorServices, found: ContextSource): Promise<Outcome<Caller>> {
  if ('plan' in found) return loadCreator(services, found.plan.snapshot.context.fixed);
  const { tenantId, id } = found.proposal;
  return done({
    ...{ user: null, principal: SIDECAR, tenantId, role: 'user', scopes: null, platformAdmin: false },
    ...{ token: null, endsAt: null, requestId: id },
  });
}

function nodeError(steps: readonly StepInput[], node: StepInput, isTaken: boolean): string | null {
  if (isTaken) return `Another node already has the id '${node.id}'.`;
  if (steps.length >= MAX_STEPS) return `A plan can have at most ${MAX_STEPS} steps.`;
  const [error] = graphErrors([...steps, node].map(({ id, dependsOn }) => ({ id, depends_on: dependsOn })));
  return error === undefined ? null : `depends_on: ${error.message}.`;
}

function finalStateError(finalState: JsonObject): string | null {
  const json = checkJson(finalState);
  if (!json.ok) return `The final state is ${json.reason}.`;
  return jsonBytes(finalState) > MAX_FINAL_STATE_BYTES ? 'The final state is too large.' : null;
}

const INVISIBLE = new RegExp(INVISIBLE_CHARACTER.source, 'gv');

/** Sanitizes a sidecar's text for people: well-formed, without invisible characters, at most `MAX_TEXT` characters. */
const sanitizeSidecarText = (text: string): string =>
  Array.from(
    text
      .toWellFormed()
      .slice(0, 2 * MAX_TEXT)
      .replace(INVISIBLE, ''),
  )
    .slice(0, MAX_TEXT)
    .join('')
    .trim();
