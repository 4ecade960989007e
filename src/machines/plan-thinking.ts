import { CONTEXT_LIFE_MS } from '../domain/cognition.ts';
import { jsonEqual } from '../domain/json-size.ts';
import { graphErrors, MAX_STEPS } from '../domain/plan.ts';
import type { EpochMs, Json, Milliseconds } from '../domain/values.ts';
import { refusing } from './decision.ts';
import type { PlanCognition, PlanContext, StepError, StepWish } from './plan-types.ts';
import {
  type Decided,
  decided,
  end,
  endThought,
  isThought,
  isWaitedFor,
  left,
  type Mind,
  type Moment,
  mindOf,
  type Of,
  put,
  putCognition,
  stepOf,
  tellOf,
  tellThinker,
  type Work,
  workOn,
} from './plan-work.ts';

// The words of whoever thinks about a plan. They add steps, wait, or end; nothing here confirms, accepts or cancels.

type Word = 'node.proposed' | 'cognition.suspended' | 'cognition.completed' | 'cognition.failed';

export const refuseWord = ({ status, cognition }: PlanContext, { type }: Of<Word>): Decided => {
  if (cognition === null) return refusing('NOT_FOUND', 'Nobody is asked to think about this plan.');
  const over = cognition.phase === 'done' ? 'What was to be thought about it is over.' : `The plan is ${status}.`;
  return refusing('CONFLICT', type === 'node.proposed' ? `${over} No step is added any more.` : over);
};

/** As whoever thinks was heard of: they have as long again. */
function heard(context: PlanContext, event: Moment): Work {
  const work = workOn(context, event);
  putCognition(work, { phase: 'thinking', dueAt: null, overdue: false });
  return work;
}

export function propose(context: PlanContext, event: Of<'node.proposed'>): Decided {
  if (!isThought(context)) return refuseWord(context, event);
  const { node } = event;
  const known = context.steps.find(({ id }) => id === node.id);
  // Told twice: it is what it was.
  if (known !== undefined && isSame(known, node)) return { changes: null, outputs: [] };
  const wrong = whatIsWrong(context, node);
  if (wrong !== null) return refusing('VALIDATION_FAILED', wrong);
  const work = heard(context, event);
  const step = stepOf(node);
  put(work, { steps: [...context.steps, step] });
  tellOf(work, step, null);
  return decided(work);
}

function whatIsWrong({ steps }: PlanContext, node: StepWish): string | null {
  if (steps.some(({ id }) => id === node.id)) return `There is another node '${node.id}' already.`;
  if (steps.length >= MAX_STEPS) return `A plan has ${MAX_STEPS} steps at most.`;
  const graph = [...steps, node].map(({ id, dependsOn }) => ({ id, depends_on: dependsOn }));
  const [error] = graphErrors(graph);
  return error === undefined ? null : `depends_on ${error.message}`;
}

const isSame = (known: StepWish, node: StepWish): boolean => jsonEqual(wished(known), wished(node));

const wished = ({ id, deviceId, action, params, dependsOn, compensation, timeoutS }: StepWish): Json => ({
  ...{ id, deviceId, action, params, timeoutS, dependsOn: [...dependsOn] },
  compensation: compensation && { ...compensation },
});

export function suspend(context: PlanContext, event: Of<'cognition.suspended'>): Decided {
  if (!isThought(context)) return refuseWord(context, event);
  const until = Math.min(event.at + event.forMs, context.createdAt + CONTEXT_LIFE_MS);
  if (until <= event.at) return refusing('CONFLICT', 'It has been thought about for a day.');
  const work = heard(context, event);
  putCognition(work, { phase: 'suspended', dueAt: until });
  return decided(work);
}

export function complete(context: PlanContext, event: Of<'cognition.completed'>): Decided {
  if (!isThought(context)) return refuseWord(context, event);
  const work = workOn(context, event);
  const { summary, finalState } = event;
  endThought(work, { summary, finalState });
  return decided(work);
}

export function fail(context: PlanContext, event: Of<'cognition.failed'>): Decided {
  if (!isThought(context)) return refuseWord(context, event);
  const work = workOn(context, event);
  // They know it themselves: nobody interrupts them.
  endThought(work, { error: event.error });
  end(work, context.onFailure, event.error.detail);
  return decided(work);
}

/** The suspension is over, whatever it waited for. */
export function thinkAgain(context: PlanContext, event: Moment): Decided {
  const work = heard(context, event);
  tellThinker(work, { type: 'opened' });
  return decided(work);
}

/** Silent for too long. Flags and suspensions are not for a machine to know. */
export function askWhy({ id, cognition }: PlanContext): Decided {
  const { dueAt } = cognition as { dueAt: EpochMs };
  return {
    changes: { cognition: { ...(cognition as PlanCognition), overdue: true } },
    outputs: [{ type: 'plan.unheard', planId: id, dueAt }],
  };
}

export const isAnswered = ({ cognition }: PlanContext, { dueAt }: Of<'cognition.excused' | 'cognition.unheard'>) =>
  cognition?.overdue === true && cognition.dueAt === dueAt;

export function excuse(context: PlanContext, event: Of<'cognition.excused'>): Decided {
  const work = workOn(context, event);
  putCognition(work, { dueAt: event.at + event.forMs, overdue: false });
  return decided(work);
}

const UNHEARD: StepError = {
  code: 'SIDECAR_UNAVAILABLE',
  detail: 'The sidecar that was to think about it said nothing for a minute.',
};

export function giveUpThinking(context: PlanContext, event: Moment): Decided {
  const work = workOn(context, event);
  putCognition(work, { error: UNHEARD });
  end(work, context.onFailure, UNHEARD.detail);
  return decided(work);
}

/** The timer that starts now is for this. */
export function arm({ cognition }: PlanContext): Decided {
  const known = cognition as PlanCognition;
  return { changes: { cognition: { ...known, armedFor: known.dueAt } }, outputs: [] };
}

export const minds = (context: PlanContext, _: object, { mind }: { mind: Mind }): boolean => mindOf(context) === mind;

/** Steps are under way, so that nothing would be expected. */
export const isWorking = ({ steps }: PlanContext): boolean => steps.some(isWaitedFor);

export const isOtherTime = ({ cognition }: PlanContext): boolean => cognition?.armedFor !== cognition?.dueAt;

export const patienceLeft = ({ cognition }: PlanContext, event: Moment): Milliseconds =>
  left(cognition?.dueAt ?? null, event);
