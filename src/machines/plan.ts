import { setup } from 'xstate';
import type { PlanStatus } from '../domain/plan.ts';
import { actionsFor, guardsFor } from './decision.ts';
import type { Output } from './outputs.ts';
import * as cognition from './plan-cognition.ts';
import * as decisions from './plan-decisions.ts';
import { initialPlan, type PlanContext } from './plan-types.ts';
import type { AnyPlanEvent, PlannerState, PlanPhase } from './plan-update.ts';

type Event = AnyPlanEvent;

const action = actionsFor<PlanContext, Event>();
const guard = guardsFor<PlanContext, Event>();

/** How long the chart's timers run. */
const delays = {
  wakeUp: ({ context, event }: Cause) => decisions.msUntilWake(context, event),
  patience: ({ context, event }: Cause) => cognition.msUntilPlannerDeadline(context, event),
};
type Cause = { context: PlanContext; event: Event };
export type PlanDelay = keyof typeof delays;

const base = setup({
  types: { context: {} as PlanContext, events: {} as Event, emitted: {} as Output },
  actions: {
    create: action(decisions.create),
    cancel: action(decisions.cancel),
    refuseCancel: action(decisions.refuseCancel),
    applyCommandChange: action(decisions.applyCommandChange),
    applyStepRefusal: action(decisions.applyStepRefusal),
    holdStep: action(decisions.holdStep),
    retryHeldSteps: action(decisions.retryHeldSteps),
    markSuspended: action(decisions.markSuspended),
    setStatus: action(decisions.setStatus),
    setFinishedAt: action(decisions.setFinishedAt),
    propose: action(cognition.propose),
    suspend: action(cognition.suspend),
    complete: action(cognition.complete),
    fail: action(cognition.fail),
    refusePlannerEvent: action(cognition.refusePlannerEvent),
    resumePlanner: action(cognition.resumePlanner),
    reportPlannerTimeout: action(cognition.reportPlannerTimeout),
    extendPlannerDeadline: action(cognition.extendPlannerDeadline),
    failPlannerTimeout: action(cognition.failPlannerTimeout),
    recordArmedDeadline: action(cognition.recordArmedDeadline),
  },
  guards: {
    changesStep: guard(decisions.changesStep),
    isStepRequested: guard(decisions.isStepRequested),
    phaseIs: guard(decisions.phaseIs),
    hasHeldSteps: guard(decisions.hasHeldSteps),
    hasStepsUnderWay: guard(decisions.hasStepsUnderWay),
    hasWake: guard(decisions.hasWake),
    hasNoWake: guard(decisions.hasNoWake),
    plannerIs: guard(cognition.plannerIs),
    hasOutstandingSteps: guard(cognition.hasOutstandingSteps),
    isDeadlineChanged: guard(cognition.isDeadlineChanged),
    isCurrentTimeout: guard(cognition.isCurrentTimeout),
  },
  delays,
});

const setStatus = (status: PlanStatus) => ({ type: 'setStatus', params: { status } }) as const;
const phaseIs = (phase: PlanPhase) => ({ type: 'phaseIs', params: { phase } }) as const;
/** Transition to another phase of an open plan. */
const toPhase = <To extends 'running' | 'awaiting_confirmation' | 'rolling_back' | 'stopping'>(phase: To) =>
  ({ guard: phaseIs(phase), target: phase }) as const;
const endings = [toPhase('stopping'), toPhase('rolling_back')] as const;

/** The lifecycle region: a plan from its request to its last step or last compensation (contract §6). */
const lifecycle = base.createStateConfig({
  initial: 'unregistered',
  on: { cancel: { actions: 'refuseCancel' } },
  states: {
    unregistered: {
      description: 'Not requested yet; not visible.',
      on: { create: { target: 'open', actions: 'create' } },
    },
    open: {
      description: 'Steps or compensations remain.',
      initial: 'pending',
      on: {
        'command.moved': { guard: 'changesStep', actions: 'applyCommandChange' },
        'step.refused': { guard: 'isStepRequested', actions: 'applyStepRefusal' },
        'step.held': { guard: 'isStepRequested', actions: 'holdStep' },
        'tenant.suspended': { guard: 'hasStepsUnderWay', actions: 'markSuspended' },
        'tenant.resumed': { guard: 'hasHeldSteps', actions: 'retryHeldSteps' },
        cancel: { actions: 'cancel' },
        'self.advanced': [
          { guard: phaseIs('succeeded'), target: 'succeeded' },
          { guard: phaseIs('failed'), target: 'failed' },
          { guard: phaseIs('rolled_back'), target: 'rolled_back' },
          { guard: phaseIs('rollback_failed'), target: 'rollback_failed' },
          { guard: phaseIs('cancelled'), target: 'cancelled' },
        ],
      },
      states: {
        pending: {
          description: 'No step has started; flags may defer each step.',
          entry: setStatus('pending'),
          on: { 'self.advanced': [...endings, toPhase('awaiting_confirmation'), toPhase('running')] },
        },
        running: {
          description: 'Steps are under way.',
          entry: setStatus('running'),
          on: { 'self.advanced': [...endings, toPhase('awaiting_confirmation')] },
        },
        awaiting_confirmation: {
          description:
            'A step awaits confirmation in the inbox and blocks the steps that depend on it; others continue.',
          entry: setStatus('awaiting_confirmation'),
          on: { 'self.advanced': [...endings, toPhase('running')] },
        },
        stopping: {
          description:
            'A step failed, or was lost to a suspension; steps under way finish, and nothing is compensated unless a user cancels the plan.',
          entry: setStatus('running'),
          on: { 'self.advanced': toPhase('rolling_back') },
        },
        rolling_back: {
          description:
            'Steps under way finish; then finished steps are compensated in reverse order, and failed compensations are retried.',
          entry: setStatus('rolling_back'),
          on: { cancel: {}, 'self.advanced': toPhase('stopping') },
        },
      },
    },
    succeeded: {
      description: 'All steps have succeeded.',
      type: 'final',
      entry: ['setFinishedAt', setStatus('succeeded')],
    },
    failed: {
      description: 'A step or the planning failed; no step was executed, or executed steps are not compensated.',
      type: 'final',
      entry: ['setFinishedAt', setStatus('failed')],
    },
    rolled_back: {
      description: 'A step failed after others were executed; those with a compensation were compensated.',
      type: 'final',
      entry: ['setFinishedAt', setStatus('rolled_back')],
    },
    rollback_failed: {
      description: 'At least one compensation failed; the steps show which.',
      type: 'final',
      entry: ['setFinishedAt', setStatus('rollback_failed')],
    },
    cancelled: {
      description: 'Cancelled by a user; finished steps with a compensation were compensated.',
      type: 'final',
      entry: ['setFinishedAt', setStatus('cancelled')],
    },
  },
});

// No state of `clock` or `mind` is marked final: XState does not deliver raised events to a machine whose regions are
// all final.
const clock = base.createStateConfig({
  initial: 'still',
  states: {
    still: {
      description: 'No step is deferred, and no compensation awaits a retry.',
      on: { 'self.advanced': { guard: 'hasWake', target: 'waiting' } },
    },
    waiting: {
      description: 'When the timer fires, deferred commands are requested again and failed compensations are retried.',
      after: { wakeUp: { target: 'still', actions: 'retryHeldSteps' } },
      on: { 'self.advanced': { guard: 'hasNoWake', target: 'still' } },
    },
  },
});

const root = {
  id: 'plan',
  description:
    'A graph of steps, each executed by a command. Ready steps run in parallel. When a step fails, no further steps start, steps under way finish, and finished steps are compensated in reverse order.',
  type: 'parallel',
  context: initialPlan,
} as const;

/** Version 1, without a planner. */
export const planMachineV1 = base.createMachine({ ...root, states: { lifecycle, clock } });

/** Transitions to the planner's current state; the first that holds is taken. */
const plannerTransitions = <To extends Exclude<PlannerState, 'none' | 'unheard'>>(...states: To[]) =>
  states.map((state) => ({ guard: { type: 'plannerIs', params: { state } }, target: state }) as const);
const refusePlannerEvent = { actions: 'refusePlannerEvent' } as const;
const { open } = lifecycle.states;

export const planMachine = base.createMachine({
  ...root,
  states: {
    lifecycle: {
      ...lifecycle,
      on: {
        ...lifecycle.on,
        'node.proposed': refusePlannerEvent,
        'cognition.suspended': refusePlannerEvent,
        'cognition.completed': refusePlannerEvent,
        'cognition.failed': refusePlannerEvent,
      },
      states: {
        ...lifecycle.states,
        open: {
          ...open,
          on: {
            ...open.on,
            'node.proposed': { actions: 'propose' },
            'cognition.suspended': { actions: 'suspend' },
            'cognition.completed': { actions: 'complete' },
            'cognition.failed': { actions: 'fail' },
          },
        },
      },
    },
    clock,
    mind: {
      initial: 'none',
      states: {
        none: {
          description: 'The plan was created with all its steps and has no planner.',
          on: { 'self.advanced': plannerTransitions('thinking') },
        },
        thinking: {
          description: 'An event from the planner is awaited: a step, a suspension, or the end of planning.',
          after: { patience: { target: 'unheard', actions: 'reportPlannerTimeout' } },
          on: { 'self.advanced': plannerTransitions('working', 'suspended', 'done') },
        },
        working: {
          description: 'Steps are under way; planner events are accepted but not awaited.',
          on: { 'self.advanced': plannerTransitions('thinking', 'suspended', 'done') },
        },
        suspended: {
          description: 'The planner is suspended, and is notified when the suspension ends.',
          entry: 'recordArmedDeadline',
          after: {
            patience: [
              { guard: 'hasOutstandingSteps', target: 'working', actions: 'resumePlanner' },
              { target: 'thinking', actions: 'resumePlanner' },
            ],
          },
          on: {
            'self.advanced': [
              ...plannerTransitions('working', 'done'),
              { guard: 'isDeadlineChanged', target: 'suspended', reenter: true },
            ],
          },
        },
        unheard: {
          description:
            'The planner sent nothing for a minute; unless a flag or a suspension excuses it, the plan ends.',
          on: {
            'cognition.excused': { guard: 'isCurrentTimeout', actions: 'extendPlannerDeadline' },
            'cognition.unheard': { guard: 'isCurrentTimeout', actions: 'failPlannerTimeout' },
            'self.advanced': plannerTransitions('thinking', 'working', 'suspended', 'done'),
          },
        },
        done: { description: 'No more steps are added.' },
      },
    },
  },
});
