import { SUSPENSION_S } from '../../domain/cognition.ts';
import { checkJson } from '../../domain/json/strict.ts';
import { jsonBytes, jsonEqual } from '../../domain/json/value.ts';
import { INVISIBLE_CHARACTER } from '../../domain/memory.ts';
import { graphErrors, MAX_STEPS } from '../../domain/plan.ts';
import type { Proposal } from '../../domain/proposal.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Json, JsonObject, Principal, Uuid } from '../../domain/values.ts';
import type { PlanContext, PlanEvent, StepInput } from '../../machines/plan-types.ts';
import type { ProposalChanges } from '../../store/contract/proposals.ts';
import { refusalOf } from '../faults.ts';
import type { Caller, Services } from '../operation.ts';
import { loadCreator } from '../plans/plan-step-resolver.ts';
import { sendToActor } from '../send-to-actor.ts';
import { activeContextOf, type ContextSource, cognitionRefusal, findContext, tenantOfContext } from './contexts.ts';
import type { ActiveContext, Cognition } from './contract.ts';
import { validateNode } from './node-validation.ts';
import { notifyNodeChange } from './sidecar-events.ts';
import type { WakeTimers } from './wake-timers.ts';

// What a sidecar says. Nothing of it can confirm, accept or cancel, and nothing is believed: whoever thinks may lie.

const SIDECAR: Principal = { kind: 'system', id: 'sidecar' };
const MAX_TEXT = 1_000;
const MAX_FINAL_STATE_BYTES = 16 * 1024;

type SidecarHandlers = Pick<Cognition, 'propose' | 'suspend' | 'complete' | 'fail'>;
type SidecarEvent = Extract<
  PlanEvent,
  { type: 'node.proposed' | 'cognition.suspended' | 'cognition.completed' | 'cognition.failed' }
>;
type SidecarEventInput = SidecarEvent extends infer One
  ? One extends SidecarEvent
    ? Omit<One, 'at' | 'by'>
    : never
  : never;

export function makeSidecarHandlers(services: Services, alarms: WakeTimers): SidecarHandlers {
  const { locks, log, clock, store } = services;

  /** In the order of their coming, for each context; never throws. */
  async function on<T>(
    contextId: Uuid,
    say: (found: ContextSource, active: ActiveContext) => Promise<Outcome<T>>,
  ): Promise<Outcome<T>> {
    if (!isId(contextId)) return unknownContext();
    try {
      return await locks.exclusive(`context:${contextId}`, async () => {
        const found = await findContext(services, contextId);
        if (found === null) return unknownContext();
        const barred = await cognitionRefusal(services, tenantOfContext(found));
        if (barred !== null) return { ok: false, refusal: barred };
        const active = activeContextOf(services, found);
        if (active === null) return refuse('CONFLICT', 'What was to be thought about is over.');
        return say(found, active);
      });
    } catch (thrown) {
      return { ok: false, refusal: refusalOf(thrown, log, { request_id: contextId, operation: 'sidecar' }) };
    }
  }

  const tellPlan = (id: Uuid, word: SidecarEventInput) =>
    sendToActor(services, { kind: 'plan', id }, { ...word, at: clock.now(), by: SIDECAR } as SidecarEvent, undefined, {
      again: true,
    });

  async function change(id: Uuid, changes: ProposalChanges): Promise<Outcome<Proposal>> {
    const changed = await store.proposals.change(id, changes);
    if (changed === null) return refuse('CONFLICT', 'What was to be thought about is over.');
    if (changed.phase !== 'suspended') alarms.clear(id);
    return done(changed);
  }

  async function add(proposal: Proposal, node: StepInput): Promise<Outcome<{ repeat: boolean }>> {
    const { id, steps } = proposal;
    const known = steps.find((step) => step.id === node.id);
    if (known && jsonEqual(known as unknown as Json, node as unknown as Json)) return done({ repeat: true });
    const wrong = nodeError(steps, node, known !== undefined);
    if (wrong !== null) return refuse('VALIDATION_FAILED', wrong);
    const changed = await change(id, { steps: [...steps, node], phase: 'thinking' });
    if (!changed.ok) return changed;
    notifyNodeChange(services, proposal, node.id, null, 'pending');
    return done({ repeat: false });
  }

  return {
    propose: (contextId, given) =>
      on(contextId, async (found, { kind, homeId, deviceId }) => {
        const caller = await authorityOf(services, found);
        if (!caller.ok) return caller;
        const { steps } = 'plan' in found ? found.plan.snapshot.context : found.proposal;
        const asking = { reach: { kind, homeId, deviceId }, caller: caller.value, steps };
        const node = await validateNode(services, given, asking);
        if (!node.ok) return node;
        if ('proposal' in found) return add(found.proposal, node.value);
        const told = await tellPlan(contextId, { type: 'node.proposed', node: node.value });
        return told.ok ? done({ repeat: !told.value.understood }) : told;
      }),

    suspend: (contextId, { reason, forS }) =>
      on(contextId, async (found) => {
        const seconds = forS ?? SUSPENSION_S.default;
        if (!(seconds >= 1 && seconds <= SUSPENSION_S.max)) {
          return refuse('VALIDATION_FAILED', `A suspension lasts 1 to ${SUSPENSION_S.max} seconds.`);
        }
        const forMs = Math.round(seconds * 1_000);
        if ('plan' in found) {
          return noValue(
            await tellPlan(contextId, { type: 'cognition.suspended', reason: sanitizeSidecarText(reason), forMs }),
          );
        }
        const changed = await change(contextId, { phase: 'suspended' });
        if (changed.ok) alarms.set(contextId, clock.now() + forMs);
        return noValue(changed);
      }),

    complete: (contextId, { summary, finalState = null }) =>
      on(contextId, async (found) => {
        const wrong = finalState === null ? null : finalStateError(finalState);
        if (wrong !== null) return refuse('VALIDATION_FAILED', wrong);
        const text = sanitizeSidecarText(summary);
        if ('plan' in found) {
          return noValue(await tellPlan(contextId, { type: 'cognition.completed', summary: text, finalState }));
        }
        const reason = text === '' ? null : text;
        return noValue(
          await change(contextId, { phase: 'done', spokenAt: clock.now(), ...(reason !== null && { reason }) }),
        );
      }),

    fail: (contextId, { code, detail }) =>
      on(contextId, async (found) => {
        const text = sanitizeSidecarText(detail) || 'The sidecar cannot go on, and does not say why.';
        if ('plan' in found) {
          const error = { code: /^[A-Z][A-Z0-9_]{0,63}$/.test(code) ? code : 'SIDECAR_ERROR', detail: text };
          return noValue(await tellPlan(contextId, { type: 'cognition.failed', error }));
        }
        // Half a thought is nobody's to accept.
        return noValue(await change(contextId, { phase: 'done', spokenAt: clock.now(), reason: text, steps: [] }));
      }),
  };
}

const isId = (id: string): boolean => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(id);

const unknownContext = () => refuse('NOT_FOUND', 'Nothing of this id is to be thought about.');

const noValue = (outcome: Outcome<unknown>): Outcome<null> => (outcome.ok ? done(null) : outcome);

/** A step needs the authority of whoever asked. What an observation led to has nobody's until somebody accepts it. */
async function authorityOf(services: Services, found: ContextSource): Promise<Outcome<Caller>> {
  if ('plan' in found) return loadCreator(services, found.plan.snapshot.context as PlanContext);
  const { tenantId, id } = found.proposal;
  return done({
    ...{ user: null, principal: SIDECAR, tenantId, role: 'user', scopes: null, platformAdmin: false },
    ...{ token: null, endsAt: null, requestId: id },
  });
}

function nodeError(steps: readonly StepInput[], node: StepInput, isTaken: boolean): string | null {
  if (isTaken) return `There is another node '${node.id}' already.`;
  if (steps.length >= MAX_STEPS) return `A plan has ${MAX_STEPS} steps at most.`;
  const [error] = graphErrors([...steps, node].map(({ id, dependsOn }) => ({ id, depends_on: dependsOn })));
  return error === undefined ? null : `depends_on ${error.message}`;
}

function finalStateError(finalState: JsonObject): string | null {
  const json = checkJson(finalState);
  if (!json.ok) return `The final state is ${json.reason}.`;
  return jsonBytes(finalState) > MAX_FINAL_STATE_BYTES ? 'The final state is too large.' : null;
}

const INVISIBLE = new RegExp(INVISIBLE_CHARACTER.source, 'gv');

/** A sidecar's sentence, for people to read: whatever it holds, it is text, and not too long. */
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
