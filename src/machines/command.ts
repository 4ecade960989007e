import { setup } from 'xstate';
import { type AckStatus, type CommandStatus, LATE_WORD_MS, type VerificationStatus } from '../domain/command.ts';
import { SYSTEM } from '../domain/values.ts';
import * as decisions from './command-decisions.ts';
import type { CommandContext } from './command-types.ts';
import { asking, deciding } from './decision.ts';
import type { Output } from './outputs.ts';

type Event = decisions.AnyCommandEvent;
type Judged = decisions.Of<'self.judged' | 'self.judged_again'>;

const blank: CommandContext = {
  id: '',
  tenantId: '',
  deviceId: '',
  action: '',
  params: {},
  messageId: '',
  origin: { requestId: '', plan: null },
  requestedBy: SYSTEM,
  requestedAt: 0,
  status: 'submitted',
  safetyClass: null,
  manifestVersion: null,
  limits: { ttlMs: 0, timeoutMs: 0 },
  refusal: null,
  confirmation: null,
  confirmedBy: null,
  delivery: null,
  answer: { progress: null, result: null, error: null, timedOutAt: null, late: false, strayWords: 0 },
  verification: { status: 'pending', expected: null, withinMs: 0, observed: null, checkedAt: null },
};

const act = deciding<CommandContext, Event>();
const when = asking<CommandContext, Event>();
const endedWithoutSuccess: readonly CommandStatus[] = ['rejected', 'expired', 'cancelled', 'failed'];

const base = setup({
  types: { context: {} as CommandContext, events: {} as Event, emitted: {} as Output },
  actions: {
    judge: act((_, event: decisions.Of<'request'>) => ({
      changes: null,
      outputs: [],
      raised: decisions.judgeRequest(event),
    })),
    judgeAgain: act((context, event: decisions.Of<'confirm'>) => ({
      changes: null,
      outputs: [],
      raised: decisions.judgeConfirmed(context, event),
    })),
    record: act(decisions.record),
    awaitConfirmation: act(decisions.awaitConfirmation),
    settleConfirmation: act(decisions.settleConfirmation),
    refuse: act(decisions.refuse),
    refuseConfirmation: act(decisions.refuseConfirmation),
    refuseCancel: act(decisions.refuseCancel),
    refuseRefusal: act(decisions.refuseRefusal),
    dispatch: act(decisions.dispatch),
    write: act(decisions.write),
    undoWrite: act(decisions.undoWrite),
    keepWord: act(decisions.keepWord),
    countStrayWord: act(decisions.countStrayWord),
    stampTimeout: act(decisions.stampTimeout),
    /** Both regions learn of a new status before anybody else does: the verification announces it. */
    become: act((_, { at }, { status }: { status: CommandStatus }) => ({
      changes: { status },
      outputs: [],
      raised: { type: 'self.moved', at },
    })),
    close: act((_, { at }) => ({ changes: null, outputs: [], raised: { type: 'self.closed', at } })),
    conclude: act((context, event, { status }: { status: VerificationStatus }) => ({
      changes: decisions.checked(context, event, { status }),
      outputs: [],
    })),
    announce: act(decisions.announce),
    watch: act(decisions.watch),
    unwatch: act(decisions.unwatch),
    observe: act(decisions.observe),
  },
  guards: {
    isOfPlan: when(decisions.isOfPlan),
    isRefused: when((_, { judgement }: Judged) => judgement.kind === 'refused'),
    needsConfirmation: when((_, { judgement }: Judged) => judgement.kind === 'confirmation'),
    hasSession: when(decisions.hasSession),
    mayWrite: when(decisions.mayWrite),
    mayWriteAgain: when(decisions.mayWriteAgain),
    isOnlyWrite: when(decisions.isOnlyWrite),
    says: when(decisions.says),
    isCountedStray: when(decisions.isCountedStray),
    expectsNothing: when(decisions.expectsNothing),
    isDispatched: when(({ status }) => status === 'dispatched'),
    isSucceeded: when(({ status }) => status === 'succeeded'),
    isEnded: when(({ status }) => endedWithoutSuccess.includes(status)),
    matches: when(decisions.matches),
    differs: when(decisions.differs),
    sawState: when(({ verification }) => verification.observed !== null),
  },
  delays: {
    confirmationOver: ({ context, event }) => decisions.confirmationLeft(context, event),
    ttlOver: ({ context, event }) => decisions.ttlLeft(context, event),
    answerOver: ({ context, event }) => decisions.answerLeft(context, event),
    lateWordOver: LATE_WORD_MS,
    verificationOver: ({ context }) => context.verification.withinMs,
  },
});

const become = (status: CommandStatus) => ({ type: 'become', params: { status } }) as const;
const settle = (status: CommandStatus) => ({ type: 'settleConfirmation', params: { status } }) as const;
const says = (word: AckStatus) => ({ type: 'says', params: { word } }) as const;
const conclude = (status: VerificationStatus) => ({ type: 'conclude', params: { status } }) as const;
const tooLate = [
  {
    guard: 'sawState',
    target: '#command.verification.mismatched',
    actions: [conclude('mismatched'), { type: 'announce' }],
  },
  { target: '#command.verification.timed_out', actions: [conclude('timed_out'), { type: 'announce' }] },
] as const;
const toDispatch = [{ type: 'dispatch' }, become('dispatched')] as const;

/** A command from its request to its last word, and beside that what the device's state proves of it (contract §5). */
export const commandMachine = base.createMachine({
  id: 'command',
  description:
    "A command from its request to its last word, and beside that what the device's reported state proves of it.",
  type: 'parallel',
  context: blank,
  states: {
    lifecycle: {
      initial: 'submitted',
      on: {
        'ack.received': { guard: 'isCountedStray', actions: 'countStrayWord' },
        cancel: { actions: 'refuseCancel' },
        refuse: { actions: 'refuseRefusal' },
        confirm: { actions: 'refuseConfirmation' },
      },
      states: {
        submitted: {
          description: 'Asked for; the safety gateway judges it in the same transition.',
          on: {
            request: { actions: 'judge' },
            'self.judged': [
              { guard: 'isRefused', target: 'rejected', actions: 'record' },
              { guard: 'needsConfirmation', target: 'awaiting_confirmation', actions: ['record', 'awaitConfirmation'] },
              { guard: 'hasSession', target: 'written', actions: ['record', ...toDispatch, 'write'] },
              { target: 'queued', actions: ['record', ...toDispatch] },
            ],
          },
        },
        awaiting_confirmation: {
          description: 'A critical command, or a dry run, that somebody may confirm until its token runs out.',
          entry: become('awaiting_confirmation'),
          after: { confirmationOver: { target: 'expired', actions: settle('expired') } },
          on: {
            confirm: { actions: 'judgeAgain' },
            'self.judged_again': [
              { guard: 'isRefused', actions: 'refuse' },
              // It is confirmed by now: a gateway that asks again lets nothing through.
              { guard: 'needsConfirmation' },
              { guard: 'hasSession', target: 'written', actions: [settle('dispatched'), ...toDispatch, 'write'] },
              { target: 'queued', actions: [settle('dispatched'), ...toDispatch] },
            ],
            cancel: { target: 'cancelled', actions: settle('cancelled') },
            refuse: { target: 'cancelled', actions: settle('cancelled') },
            'device.revoked': { target: 'cancelled', actions: settle('cancelled') },
            'plan.withdrawn': { guard: 'isOfPlan', target: 'cancelled', actions: settle('cancelled') },
          },
        },
        queued: {
          description: 'Dispatched, and no byte of it has left: it waits for a session until its ttl is over.',
          after: { ttlOver: 'expired' },
          on: {
            'session.ready': { guard: 'mayWrite', target: 'written', actions: 'write' },
            cancel: 'cancelled',
            'device.revoked': 'cancelled',
            'plan.withdrawn': { guard: 'isOfPlan', target: 'cancelled' },
          },
        },
        written: {
          description: 'It may have reached its device; the time for an answer runs from the first write.',
          initial: 'dispatched',
          after: { answerOver: 'timed_out' },
          on: {
            'ack.received': [
              { guard: says('succeeded'), target: 'succeeded', actions: 'keepWord' },
              { guard: says('failed'), target: 'failed', actions: 'keepWord' },
              { guard: says('in_progress'), target: '.in_progress', actions: 'keepWord' },
              {},
            ],
            'session.ready': { guard: 'mayWriteAgain', actions: 'write' },
            'device.revoked': 'timed_out',
          },
          states: {
            dispatched: {
              description: 'No word from the device yet.',
              on: {
                'ack.received': { guard: says('accepted'), target: 'acknowledged', actions: 'keepWord' },
                'write.undone': { guard: 'isOnlyWrite', target: '#command.lifecycle.queued', actions: 'undoWrite' },
              },
            },
            acknowledged: { description: 'The device has accepted it.', entry: become('acknowledged') },
            in_progress: {
              description: 'The device is at it, and may say how far it is.',
              entry: become('in_progress'),
              on: { 'ack.received': { guard: says('in_progress'), actions: 'keepWord' } },
            },
          },
        },
        timed_out: {
          description: 'Written and never finished: the outcome is unknown, and a late word still counts.',
          entry: ['stampTimeout', become('timed_out')],
          after: { lateWordOver: 'closed' },
          on: {
            'ack.received': [
              { guard: says('succeeded'), target: 'succeeded', actions: 'keepWord' },
              { guard: says('failed'), target: 'failed', actions: 'keepWord' },
            ],
          },
        },
        closed: {
          description: 'Timed out, and too long ago for a late word.',
          type: 'final',
          entry: 'close',
        },
        rejected: {
          description: 'The safety gateway refused it.',
          type: 'final',
          entry: become('rejected'),
        },
        succeeded: {
          description: 'The device says that it did it.',
          type: 'final',
          entry: become('succeeded'),
        },
        failed: {
          description: 'The device says that it could not do it.',
          type: 'final',
          entry: become('failed'),
        },
        expired: {
          description: 'Not confirmed, or not written, in time.',
          type: 'final',
          entry: become('expired'),
        },
        cancelled: {
          description: 'Withdrawn before it was written.',
          type: 'final',
          entry: become('cancelled'),
        },
      },
    },
    // None of its states is marked final: a machine with nothing left to do would not hear what it raises itself.
    verification: {
      initial: 'idle',
      on: { 'self.moved': { actions: 'announce' } },
      states: {
        idle: {
          description: 'Not dispatched yet.',
          on: {
            'self.judged': { guard: 'expectsNothing', target: 'unverifiable', actions: conclude('unverifiable') },
            'self.moved': [
              { guard: 'isDispatched', target: 'watching', actions: 'announce' },
              { guard: 'isEnded', target: 'unverifiable', actions: [conclude('unverifiable'), 'announce'] },
              { actions: 'announce' },
            ],
          },
        },
        watching: {
          description: 'What the device reports is compared with the expected state.',
          initial: 'open',
          entry: 'watch',
          exit: 'unwatch',
          on: {
            'state.observed': [
              { guard: 'matches', target: 'verified', actions: ['observe', conclude('verified'), 'announce'] },
              { guard: 'differs', actions: 'observe' },
            ],
            'self.moved': [
              { guard: 'isEnded', target: 'unverifiable', actions: [conclude('unverifiable'), 'announce'] },
              { guard: 'isSucceeded', target: '.closing', actions: 'announce' },
              { actions: 'announce' },
            ],
          },
          states: {
            open: {
              description: 'The command has not succeeded yet.',
              on: { 'self.closed': tooLate },
            },
            closing: {
              description: 'The command has succeeded: the state that proves it has verify_within_s to come.',
              after: { verificationOver: tooLate },
            },
          },
        },
        verified: { description: 'The expected state was reported.' },
        mismatched: { description: 'States were reported, but never the expected one.' },
        timed_out: { description: 'No state was reported in time.' },
        unverifiable: {
          description: 'There is nothing to expect, or the command ended without success.',
        },
      },
    },
  },
});
