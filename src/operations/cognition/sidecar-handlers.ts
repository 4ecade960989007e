import { SUSPENSION_S } from '../../domain/cognition.ts';
import { checkJson } from '../../domain/json/strict.ts';
import { jsonBytes, jsonEqual } from '../../domain/json/value.ts';
import { addShapingMemories, INVISIBLE_CHARACTER, type ShapingMemory } from '../../domain/memory.ts';
import { graphErrors, MAX_STEPS } from '../../domain/plan.ts';
import type { Proposal } from '../../domain/proposal.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { isCanonicalUuid } from '../../domain/uuid.ts';
import type { Json, JsonObject, Principal, Uuid } from '../../domain/values.ts';
import type { PlannerEventType } from '../../machines/plan-cognition.ts';
import type { PlanEvent, StepInput } from '../../machines/plan-types.ts';
import type { SuspensionTimers } from '../../services/suspension-timers.ts';
import type { ProposalChanges } from '../../store/contract/proposals.ts';
import { refusalOf } from '../faults.ts';
import type { Caller, Services } from '../operation.ts';
import { type CreatorServices, loadCreator } from '../plans/plan-step-resolver.ts';
import { sendToActor } from '../send-to-actor.ts';
import {
  activeContextOf,
  type ContextSource,
  cognitionRefusal,
  findContext,
  tenantOfContext,
  withContextLock,
} from './contexts.ts';
import type { ActiveContext, Cognition } from './contract.ts';
import { loadShapingMemories } from './memory-authority.ts';
import { notifyNodeChange } from './sidecar-events.ts';
import { type StepValidationServices, validateProposedStep } from './step-validation.ts';

const SIDECAR: Principal = { kind: 'system', id: 'sidecar' };
const MAX_TEXT = 1_000;
const MAX_FINAL_STATE_BYTES = 16 * 1024;

/** Services that handle the events of a sidecar. */
export type SidecarServices = StepValidationServices &
  CreatorServices &
  Pick<Services, 'clock' | 'locks' | 'log' | 'sidecar'>;

type SidecarRequests = Pick<Cognition, 'propose' | 'suspend' | 'complete' | 'fail'>;
type SidecarEvent = Extract<PlanEvent, { type: PlannerEventType }>;
type SidecarEventInput = SidecarEvent extends infer One
  ? One extends SidecarEvent
    ? Omit<One, 'at' | 'by'>
    : never
  : never;

/**
 * Handlers of the sidecar's requests. All input is untrusted, and no handler can confirm, accept or cancel anything.
 * Requests for one context are serialized.
 */
export class SidecarHandlers implements SidecarRequests {
  readonly #services: SidecarServices;
  readonly #wakeTimers: SuspensionTimers;

  constructor(services: SidecarServices, wakeTimers: SuspensionTimers) {
    this.#services = services;
    this.#wakeTimers = wakeTimers;
  }

  propose(contextId: Uuid, given: Json, memoryIds: readonly Uuid[] = []): Promise<Outcome<{ repeat: boolean }>> {
    return this.#handle(contextId, async (found, { kind, homeId, deviceId }) => {
      const caller = await authorityOf(this.#services, found);
      if (!caller.ok) return caller;
      const { steps } = 'plan' in found ? found.plan.snapshot.context.live : found.proposal;
      const scope = { reach: { kind, homeId, deviceId }, caller: caller.value, steps };
      const node = await validateProposedStep(this.#services, given, scope);
      if (!node.ok) return node;
      const memories = await loadShapingMemories(this.#services, tenantOfContext(found), memoryIds);
      if (!memories.ok) return memories;
      if ('proposal' in found) return this.#addStep(found.proposal, node.value, memories.value);
      const reply = await this.#sendToPlan(contextId, {
        ...{ type: 'node.proposed', node: node.value },
        ...(memories.value.length > 0 && { memories: memories.value }),
      });
      return reply.ok ? done({ repeat: !reply.value.understood }) : reply;
    });
  }

  suspend(contextId: Uuid, { reason, forS }: { reason: string; forS?: number | null }): Promise<Outcome<null>> {
    return this.#handle(contextId, async (found) => {
      const seconds = forS ?? SUSPENSION_S.default;
      if (!(seconds >= 1 && seconds <= SUSPENSION_S.max)) {
        return refuse('VALIDATION_FAILED', `A suspension must last 1 to ${SUSPENSION_S.max} seconds.`);
      }
      const forMs = Math.round(seconds * 1_000);
      if ('plan' in found) {
        const event = { type: 'cognition.suspended', reason: sanitizeSidecarText(reason), forMs } as const;
        return noValue(await this.#sendToPlan(contextId, event));
      }
      const changed = await this.#changeProposal(contextId, { phase: 'suspended' });
      if (changed.ok) this.#wakeTimers.set(contextId, this.#services.clock.now() + forMs);
      return noValue(changed);
    });
  }

  complete(
    contextId: Uuid,
    { summary, finalState = null }: { summary: string; finalState?: JsonObject | null },
  ): Promise<Outcome<null>> {
    return this.#handle(contextId, async (found) => {
      const error = finalState === null ? null : finalStateError(finalState);
      if (error !== null) return refuse('VALIDATION_FAILED', error);
      const text = sanitizeSidecarText(summary);
      if ('plan' in found) {
        return noValue(await this.#sendToPlan(contextId, { type: 'cognition.completed', summary: text, finalState }));
      }
      return noValue(await this.#endProposal(contextId, text === '' ? {} : { reason: text }));
    });
  }

  fail(contextId: Uuid, { code, detail }: { code: string; detail: string }): Promise<Outcome<null>> {
    return this.#handle(contextId, async (found) => {
      const text = sanitizeSidecarText(detail) || 'The sidecar failed without a reason.';
      if ('plan' in found) {
        const error = { code: /^[A-Z][A-Z0-9_]{0,63}$/.test(code) ? code : 'SIDECAR_ERROR', detail: text };
        return noValue(await this.#sendToPlan(contextId, { type: 'cognition.failed', error }));
      }
      // An incomplete proposal must not be accepted.
      return noValue(await this.#endProposal(contextId, { reason: text, steps: [] }));
    });
  }

  /**
   * Runs a handler for an active context: serialized by context, in order of arrival; never throws. The tenant stays on
   * this node until the handler has ended.
   */
  async #handle<T>(
    contextId: Uuid,
    handler: (found: ContextSource, active: ActiveContext) => Promise<Outcome<T>>,
  ): Promise<Outcome<T>> {
    const { actors, log } = this.#services;
    if (!isCanonicalUuid(contextId)) return unknownContext();
    try {
      return await withContextLock(this.#services, contextId, async () => {
        const found = await findContext(this.#services, contextId);
        const leave = found && actors.enter(tenantOfContext(found));
        if (found === null || leave === null) return unknownContext();
        try {
          const refusal = await cognitionRefusal(this.#services, tenantOfContext(found));
          if (refusal !== null) return { ok: false, refusal };
          const active = activeContextOf(this.#services, found);
          if (active === null) return refuse('CONFLICT', 'The context has ended.');
          return await handler(found, active);
        } finally {
          leave();
        }
      });
    } catch (thrown) {
      return { ok: false, refusal: refusalOf(thrown, log, { request_id: contextId, operation: 'sidecar' }) };
    }
  }

  #sendToPlan(id: Uuid, input: SidecarEventInput) {
    const event = { ...input, at: this.#services.clock.now(), by: SIDECAR } as SidecarEvent;
    return sendToActor(this.#services, { kind: 'plan', id }, event, undefined, { allowNoOp: true });
  }

  async #addStep(
    proposal: Proposal,
    node: StepInput,
    shapedBy: readonly Omit<ShapingMemory, 'steps'>[],
  ): Promise<Outcome<{ repeat: boolean }>> {
    const { id, steps } = proposal;
    const known = steps.find((step) => step.id === node.id);
    if (known && jsonEqual(known as unknown as Json, node as unknown as Json)) return done({ repeat: true });
    const error = nodeError(steps, node, known !== undefined);
    if (error !== null) return refuse('VALIDATION_FAILED', error);
    const memories = addShapingMemories(proposal.memories ?? [], node.id, shapedBy);
    const changed = await this.#changeProposal(id, {
      ...{ steps: [...steps, node], phase: 'thinking' },
      ...(memories.length > 0 && { memories }),
    });
    if (!changed.ok) return changed;
    notifyNodeChange(this.#services, proposal, node.id, null, 'pending');
    return done({ repeat: false });
  }

  #endProposal(id: Uuid, changes: Pick<ProposalChanges, 'reason' | 'steps'>): Promise<Outcome<Proposal>> {
    return this.#changeProposal(id, { phase: 'done', spokenAt: this.#services.clock.now(), ...changes });
  }

  async #changeProposal(id: Uuid, changes: ProposalChanges): Promise<Outcome<Proposal>> {
    const changed = await this.#services.store.proposals.change(id, changes);
    if (changed === null) return refuse('CONFLICT', 'The context has ended.');
    if (changed.phase !== 'suspended') this.#wakeTimers.clear(id);
    return done(changed);
  }
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
