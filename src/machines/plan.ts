import { setup } from 'xstate';
import type { PlanStatus } from '../domain/plan.ts';
import { SYSTEM } from '../domain/values.ts';
import { actionsFor, guardsFor } from './decision.ts';
import type { Output } from './outputs.ts';
import * as thinking from './plan-cognition.ts';
import * as decisions from './plan-decisions.ts';
import type { PlanContext } from './plan-types.ts';
import type { AnyPlanEvent, PlannerState, PlanPhase } from './plan-update.ts';

type Event = AnyPlanEvent;

const initialContext: PlanContext = {
  id: '',
  tenantId: '',
  name: null,
  onFailure: 'rollback',
  createdBy: SYSTEM,
  scopes: null,
  requestId: '',
  createdAt: 0,
  finishedAt: null,
  status: 'pending',
  steps: [],
  ending: null,
  finished: 0,
  wakeAt: null,
  cognition: null,
};

const action = actionsFor<PlanContext, Event>();
const guard = guardsFor<PlanContext, Event>();

const base = setup({
  types: { context: {} as PlanContext, events: {} as Event, emitted: {} as Output },
  actions: {
    create: action(decisions.create),
    cancel: action(decisions.cancel),
    refuseCancel: action(decisions.refuseCancel),
    hear: action(decisions.applyCommandChange),
    refuse: action(decisions.applyStepRefusal),
    hold: action(decisions.holdStep),
    askAgain: action(decisions.retryHeldSteps),
    park: action(decisions.park),
    become: action(decisions.setStatus),
    stamp: action(decisions.setFinishedAt),
    propose: action(thinking.propose),
    suspend: action(thinking.suspend),
    complete: action(thinking.complete),
    fail: action(thinking.fail),
    refuseWord: action(thinking.refusePlannerEvent),
    thinkAgain: action(thinking.resumePlanner),
    askWhy: action(thinking.reportPlannerTimeout),
    excuse: action(thinking.extendPlannerDeadline),
    giveUp: action(thinking.failPlannerTimeout),
    arm: action(thinking.recordArmedDeadline),
  },
  guards: {
    isNews: guard(decisions.changesStep),
    isAsked: guard(decisions.isStepRequested),
    stands: guard(decisions.phaseIs),
    hasHeld: guard(decisions.hasHeldSteps),
    hasUnderWay: guard(decisions.hasStepsUnderWay),
    hasWake: guard(decisions.hasWake),
    hasNoWake: guard(decisions.hasNoWake),
    minds: guard(thinking.plannerIs),
    isWorking: guard(thinking.hasOutstandingSteps),
    isOtherTime: guard(thinking.isDeadlineChanged),
    isAnswered: guard(thinking.isCurrentTimeout),
  },
  delays: {
    wakeUp: ({ context, event }) => decisions.msUntilWake(context, event),
    patience: ({ context, event }) => thinking.msUntilPlannerDeadline(context, event),
  },
});

const setStatus = (status: PlanStatus) => ({ type: 'become', params: { status } }) as const;
const phaseIs = (phase: PlanPhase) => ({ type: 'stands', params: { phase } }) as const;
/** Into another phase of an open plan. */
const toPhase = <To extends 'running' | 'awaiting_confirmation' | 'rolling_back' | 'stopping'>(phase: To) =>
  ({ guard: phaseIs(phase), target: phase }) as const;
const endings = [toPhase('stopping'), toPhase('rolling_back')] as const;

/** A plan from its request to its last step, or to the last thing that it undid (contract §6). */
const lifecycle = base.createStateConfig({
  initial: 'unregistered',
  on: { cancel: { actions: 'refuseCancel' } },
  states: {
    unregistered: {
      description: 'Before its request; nobody sees it.',
      on: { create: { target: 'open', actions: 'create' } },
    },
    open: {
      description: 'Something is to be done, or undone.',
      initial: 'pending',
      on: {
        'command.moved': { guard: 'isNews', actions: 'hear' },
        'step.refused': { guard: 'isAsked', actions: 'refuse' },
        'step.held': { guard: 'isAsked', actions: 'hold' },
        'tenant.suspended': { guard: 'hasUnderWay', actions: 'park' },
        'tenant.resumed': { guard: 'hasHeld', actions: 'askAgain' },
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
          description: 'No step has begun: each of them may be held back by a flag.',
          entry: setStatus('pending'),
          on: { 'self.advanced': [...endings, toPhase('awaiting_confirmation'), toPhase('running')] },
        },
        running: {
          description: 'Steps are under way.',
          entry: setStatus('running'),
          on: { 'self.advanced': [...endings, toPhase('awaiting_confirmation')] },
        },
        awaiting_confirmation: {
          description: 'A step waits in the inbox, and holds up those that depend on it; others go on.',
          entry: setStatus('awaiting_confirmation'),
          on: { 'self.advanced': [...endings, toPhase('running')] },
        },
        stopping: {
          description:
            'A step failed, or was lost to a suspension; what is under way finishes, and nothing is undone unless somebody cancels it.',
          entry: setStatus('running'),
          on: { 'self.advanced': toPhase('rolling_back') },
        },
        rolling_back: {
          description:
            'What is under way finishes; then what was done is undone, the last first, and what fails is tried again.',
          entry: setStatus('rolling_back'),
          on: { cancel: {}, 'self.advanced': toPhase('stopping') },
        },
      },
    },
    succeeded: {
      description: 'All steps have succeeded.',
      type: 'final',
      entry: ['stamp', setStatus('succeeded')],
    },
    failed: {
      description: 'A step failed, and what was done stays.',
      type: 'final',
      entry: ['stamp', setStatus('failed')],
    },
    rolled_back: {
      description: 'A step failed, and what was done is undone as far as the plan says how.',
      type: 'final',
      entry: ['stamp', setStatus('rolled_back')],
    },
    rollback_failed: {
      description: 'Something could not be undone: its steps say so.',
      type: 'final',
      entry: ['stamp', setStatus('rollback_failed')],
    },
    cancelled: {
      description: 'Somebody cancelled it, and what was done is undone.',
      type: 'final',
      entry: ['stamp', setStatus('cancelled')],
    },
  },
});

// None of its states is marked final, nor one of `mind`: a machine with nothing left to do would not hear what it raises itself.
const clock = base.createStateConfig({
  initial: 'still',
  states: {
    still: {
      description: 'Nothing is held back, and nothing is to be tried again.',
      on: { 'self.advanced': { guard: 'hasWake', target: 'waiting' } },
    },
    waiting: {
      description: 'What is held back is asked for again, and what failed is tried again, when the time has come.',
      after: { wakeUp: { target: 'still', actions: 'askAgain' } },
      on: { 'self.advanced': { guard: 'hasNoWake', target: 'still' } },
    },
  },
});

const root = {
  id: 'plan',
  description:
    'A graph of steps, each a command of its own: what is ready is asked for side by side; where one fails nothing new starts, what is under way finishes, and what was done is undone, the last first.',
  type: 'parallel',
  context: initialContext,
} as const;

/** As it was before anybody could think about a plan. */
export const planMachineV1 = base.createMachine({ ...root, states: { lifecycle, clock } });

/** Where whoever thinks stands; of several the first that holds. */
const plannerTransitions = <To extends Exclude<PlannerState, 'none' | 'unheard'>>(...minds: To[]) =>
  minds.map((one) => ({ guard: { type: 'minds', params: { mind: one } }, target: one }) as const);
const refusePlannerEvent = { actions: 'refuseWord' } as const;
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
          description: 'Its steps were given with it, and nobody thinks about it.',
          on: { 'self.advanced': plannerTransitions('thinking') },
        },
        thinking: {
          description: 'Whoever thinks about it is to say something: a step, that they wait, or that this was all.',
          after: { patience: { target: 'unheard', actions: 'askWhy' } },
          on: { 'self.advanced': plannerTransitions('working', 'suspended', 'done') },
        },
        working: {
          description: 'Steps are under way, and nothing is expected of whoever thinks; they may speak.',
          on: { 'self.advanced': plannerTransitions('thinking', 'suspended', 'done') },
        },
        suspended: {
          description: 'Whoever thinks waits for something, and is told when the time is over.',
          entry: 'arm',
          after: {
            patience: [
              { guard: 'isWorking', target: 'working', actions: 'thinkAgain' },
              { target: 'thinking', actions: 'thinkAgain' },
            ],
          },
          on: {
            'self.advanced': [
              ...plannerTransitions('working', 'done'),
              { guard: 'isOtherTime', target: 'suspended', reenter: true },
            ],
          },
        },
        unheard: {
          description: 'They were silent for a minute; a flag or a suspension excuses them, else the plan ends.',
          on: {
            'cognition.excused': { guard: 'isAnswered', actions: 'excuse' },
            'cognition.unheard': { guard: 'isAnswered', actions: 'giveUp' },
            'self.advanced': plannerTransitions('thinking', 'working', 'suspended', 'done'),
          },
        },
        done: { description: 'No step is added any more.' },
      },
    },
  },
});
