import { setup } from 'xstate';
import type { PlanStatus } from '../domain/plan.ts';
import { SYSTEM } from '../domain/values.ts';
import { asking, deciding } from './decision.ts';
import type { Output } from './outputs.ts';
import * as decisions from './plan-decisions.ts';
import type { PlanContext } from './plan-types.ts';

type Event = decisions.AnyPlanEvent;

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
  },
  guards: {
    isNews: when(decisions.isNews),
    isAsked: when(decisions.isAsked),
    stands: when(decisions.stands),
    hasHeld: when(decisions.hasHeld),
    hasUnderWay: when(decisions.hasUnderWay),
    hasWake: when(decisions.hasWake),
    hasNoWake: when(decisions.hasNoWake),
  },
  delays: { wakeUp: ({ context, event }) => decisions.wakeLeft(context, event) },
});

const become = (status: PlanStatus) => ({ type: 'become', params: { status } }) as const;
const stands = (phase: decisions.Phase) => ({ type: 'stands', params: { phase } }) as const;
/** Into another phase of an open plan. */
const goesOn = <To extends 'running' | 'awaiting_confirmation' | 'rolling_back' | 'stopping'>(phase: To) =>
  ({ guard: stands(phase), target: phase }) as const;
const endings = [goesOn('stopping'), goesOn('rolling_back')] as const;

/** A plan from its request to its last step, or to the last thing that it undid (contract §6). */
export const planMachine = base.createMachine({
  id: 'plan',
  description:
    'A graph of steps, each a command of its own: what is ready is asked for side by side; where one fails nothing new starts, what is under way finishes, and what was done is undone, the last first.',
  type: 'parallel',
  context: blank,
  states: {
    lifecycle: {
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
    },
    // None of its states is marked final: a machine with nothing left to do would not hear what it raises itself.
    clock: {
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
    },
  },
});
