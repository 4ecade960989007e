import { setup } from 'xstate';
import type { PlanStatus } from '../domain/plan.ts';
import { SYSTEM } from '../domain/values.ts';
import { asking, deciding } from './decision.ts';
import type { Output } from './outputs.ts';
import * as decisions from './plan-decisions.ts';
import * as thinking from './plan-thinking.ts';
import type { PlanContext } from './plan-types.ts';
import type { AnyPlanEvent, Mind, Phase } from './plan-work.ts';

type Event = AnyPlanEvent;

const blank: PlanContext = {
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

const act = deciding<PlanContext, Event>();
const when = asking<PlanContext, Event>();

const base = setup({
  types: { context: {} as PlanContext, events: {} as Event, emitted: {} as Output },
  actions: {
    create: act(decisions.create),
    cancel: act(decisions.cancel),
    refuseCancel: act(decisions.refuseCancel),
    hear: act(decisions.hear),
    refuse: act(decisions.refused),
    hold: act(decisions.hold),
    askAgain: act(decisions.askAgain),
    park: act(decisions.park),
    become: act(decisions.become),
    stamp: act(decisions.stamp),
    propose: act(thinking.propose),
    suspend: act(thinking.suspend),
    complete: act(thinking.complete),
    fail: act(thinking.fail),
    refuseWord: act(thinking.refuseWord),
    thinkAgain: act(thinking.thinkAgain),
    askWhy: act(thinking.askWhy),
    excuse: act(thinking.excuse),
    giveUp: act(thinking.giveUpThinking),
    arm: act(thinking.arm),
  },
  guards: {
    isNews: when(decisions.isNews),
    isAsked: when(decisions.isAsked),
    stands: when(decisions.stands),
    hasHeld: when(decisions.hasHeld),
    hasUnderWay: when(decisions.hasUnderWay),
    hasWake: when(decisions.hasWake),
    hasNoWake: when(decisions.hasNoWake),
    minds: when(thinking.minds),
    isWorking: when(thinking.isWorking),
    isOtherTime: when(thinking.isOtherTime),
    isAnswered: when(thinking.isAnswered),
  },
  delays: {
    wakeUp: ({ context, event }) => decisions.wakeLeft(context, event),
    patience: ({ context, event }) => thinking.patienceLeft(context, event),
  },
});

const become = (status: PlanStatus) => ({ type: 'become', params: { status } }) as const;
const stands = (phase: Phase) => ({ type: 'stands', params: { phase } }) as const;
/** Into another phase of an open plan. */
const goesOn = <To extends 'running' | 'awaiting_confirmation' | 'rolling_back' | 'stopping'>(phase: To) =>
  ({ guard: stands(phase), target: phase }) as const;
const endings = [goesOn('stopping'), goesOn('rolling_back')] as const;

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
          { guard: stands('succeeded'), target: 'succeeded' },
          { guard: stands('failed'), target: 'failed' },
          { guard: stands('rolled_back'), target: 'rolled_back' },
          { guard: stands('rollback_failed'), target: 'rollback_failed' },
          { guard: stands('cancelled'), target: 'cancelled' },
        ],
      },
      states: {
        pending: {
          description: 'No step has begun: each of them may be held back by a flag.',
          entry: become('pending'),
          on: { 'self.advanced': [...endings, goesOn('awaiting_confirmation'), goesOn('running')] },
        },
        running: {
          description: 'Steps are under way.',
          entry: become('running'),
          on: { 'self.advanced': [...endings, goesOn('awaiting_confirmation')] },
        },
        awaiting_confirmation: {
          description: 'A step waits in the inbox, and holds up those that depend on it; others go on.',
          entry: become('awaiting_confirmation'),
          on: { 'self.advanced': [...endings, goesOn('running')] },
        },
        stopping: {
          description:
            'A step failed, or was lost to a suspension; what is under way finishes, and nothing is undone unless somebody cancels it.',
          entry: become('running'),
          on: { 'self.advanced': goesOn('rolling_back') },
        },
        rolling_back: {
          description:
            'What is under way finishes; then what was done is undone, the last first, and what fails is tried again.',
          entry: become('rolling_back'),
          on: { cancel: {}, 'self.advanced': goesOn('stopping') },
        },
      },
    },
    succeeded: {
      description: 'All steps have succeeded.',
      type: 'final',
      entry: ['stamp', become('succeeded')],
    },
    failed: {
      description: 'A step failed, and what was done stays.',
      type: 'final',
      entry: ['stamp', become('failed')],
    },
    rolled_back: {
      description: 'A step failed, and what was done is undone as far as the plan says how.',
      type: 'final',
      entry: ['stamp', become('rolled_back')],
    },
    rollback_failed: {
      description: 'Something could not be undone: its steps say so.',
      type: 'final',
      entry: ['stamp', become('rollback_failed')],
    },
    cancelled: {
      description: 'Somebody cancelled it, and what was done is undone.',
      type: 'final',
      entry: ['stamp', become('cancelled')],
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
  context: blank,
} as const;

/** As it was before anybody could think about a plan. */
export const planMachine1 = base.createMachine({ ...root, states: { lifecycle, clock } });

/** Where whoever thinks stands; of several the first that holds. */
const mind = <To extends Exclude<Mind, 'none' | 'unheard'>>(...minds: To[]) =>
  minds.map((one) => ({ guard: { type: 'minds', params: { mind: one } }, target: one }) as const);
const refused = { actions: 'refuseWord' } as const;
const { open } = lifecycle.states;

export const planMachine = base.createMachine({
  ...root,
  states: {
    lifecycle: {
      ...lifecycle,
      on: {
        ...lifecycle.on,
        'node.proposed': refused,
        'cognition.suspended': refused,
        'cognition.completed': refused,
        'cognition.failed': refused,
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
          on: { 'self.advanced': mind('thinking') },
        },
        thinking: {
          description: 'Whoever thinks about it is to say something: a step, that they wait, or that this was all.',
          after: { patience: { target: 'unheard', actions: 'askWhy' } },
          on: { 'self.advanced': mind('working', 'suspended', 'done') },
        },
        working: {
          description: 'Steps are under way, and nothing is expected of whoever thinks; they may speak.',
          on: { 'self.advanced': mind('thinking', 'suspended', 'done') },
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
            'self.advanced': [...mind('working', 'done'), { guard: 'isOtherTime', target: 'suspended', reenter: true }],
          },
        },
        unheard: {
          description: 'They were silent for a minute; a flag or a suspension excuses them, else the plan ends.',
          on: {
            'cognition.excused': { guard: 'isAnswered', actions: 'excuse' },
            'cognition.unheard': { guard: 'isAnswered', actions: 'giveUp' },
            'self.advanced': mind('thinking', 'working', 'suspended', 'done'),
          },
        },
        done: { description: 'No step is added any more.' },
      },
    },
  },
});
