import { setup } from 'xstate';
import { type AckStatus, type CommandStatus, LATE_ACK_MS, type VerificationStatus } from '../domain/command.ts';
import * as decisions from './command-decisions.ts';
import { type AnyCommandEvent, type CommandEventOf, judgeConfirmed, judgeRequest } from './command-judgement.ts';
import { type CommandContext, initialCommand } from './command-types.ts';
import { actionsFor, guardsFor } from './decision.ts';
import type { Output } from './outputs.ts';

type Event = AnyCommandEvent;
type Judged = CommandEventOf<'self.judged' | 'self.judged_again'>;

const action = actionsFor<CommandContext, Event>();
const guard = guardsFor<CommandContext, Event>();

/** How long the chart's timers run. */
const delays = {
  confirmationOver: ({ context, event }: Cause) => decisions.confirmationLeft(context, event),
  ttlOver: ({ context, event }: Cause) => decisions.ttlLeft(context, event),
  answerOver: ({ context, event }: Cause) => decisions.answerLeft(context, event),
  lateWordOver: LATE_ACK_MS,
  verificationOver: ({ context }: Cause) => context.live.verification.withinMs,
};
type Cause = { context: CommandContext; event: Event };
export type CommandDelay = keyof typeof delays;

const base = setup({
  types: { context: {} as CommandContext, events: {} as Event, emitted: {} as Output },
  actions: {
    judge: action((_, event: CommandEventOf<'request'>) => ({
      changes: null,
      outputs: [],
      raised: judgeRequest(event),
    })),
    judgeAgain: action((context, event: CommandEventOf<'confirm'>) => ({
      changes: null,
      outputs: [],
      raised: judgeConfirmed(context, event),
    })),
    recordRequest: action(decisions.recordRequest),
    awaitConfirmation: action(decisions.awaitConfirmation),
    closeConfirmation: action(decisions.closeConfirmation),
    refuse: action(decisions.refuse),
    refuseConfirmation: action(decisions.refuseConfirmation),
    refuseCancel: action(decisions.refuseCancel),
    refuseRefusal: action(decisions.refuseRefusal),
    dispatch: action(decisions.dispatch),
    write: action(decisions.write),
    undoWrite: action(decisions.undoWrite),
    undoLastWrite: action(decisions.undoLastWrite),
    recordAck: action(decisions.recordAck),
    countLateAck: action(decisions.countLateAck),
    stampTimeout: action(decisions.stampTimeout),
    /** Both regions receive a new status before it is announced, by the verification region. */
    become: action((context, { at }, { status }: { status: CommandStatus }) => ({
      changes: decisions.setStatus(context, { status }),
      outputs: [],
      raised: { type: 'self.moved', at },
    })),
    close: action((_, { at }) => ({ changes: null, outputs: [], raised: { type: 'self.closed', at } })),
    conclude: action((context, event, { status }: { status: VerificationStatus }) => ({
      changes: decisions.updateVerification(context, event, { status }),
      outputs: [],
    })),
    announce: action(decisions.announce),
    watch: action(decisions.watch),
    unwatch: action(decisions.unwatch),
    observe: action(decisions.observe),
  },
  guards: {
    isOfPlan: guard(decisions.isOfPlan),
    isRefused: guard((_, { judgement }: Judged) => judgement.kind === 'refused'),
    needsConfirmation: guard((_, { judgement }: Judged) => judgement.kind === 'confirmation'),
    hasSession: guard(decisions.hasSession),
    mayWrite: guard(decisions.mayWrite),
    mayWriteAgain: guard(decisions.mayWriteAgain),
    isOnlyWrite: guard(decisions.isOnlyWrite),
    isLastOfSeveralWrites: guard(decisions.isLastOfSeveralWrites),
    hasAckStatus: guard(decisions.hasAckStatus),
    canCountLateAck: guard(decisions.canCountLateAck),
    hasNoExpectedState: guard(decisions.hasNoExpectedState),
    isDispatched: guard(({ live: { status } }) => status === 'dispatched'),
    isSucceeded: guard(({ live: { status } }) => status === 'succeeded'),
    isEnded: guard(decisions.isEnded),
    isEndedUnverifiable: guard((context) => decisions.isEnded(context) && context.live.verification.expected === null),
    matches: guard(decisions.matches),
    differs: guard(decisions.differs),
    sawState: guard(({ live: { verification } }) => verification.observed !== null),
  },
  delays,
});

const setStatus = (status: CommandStatus) => ({ type: 'become', params: { status } }) as const;
const closeConfirmation = (status: CommandStatus) => ({ type: 'closeConfirmation', params: { status } }) as const;
const hasAckStatus = (status: AckStatus) => ({ type: 'hasAckStatus', params: { status } }) as const;
const conclude = (status: VerificationStatus) => ({ type: 'conclude', params: { status } }) as const;
const verificationTimeout = [
  {
    guard: 'sawState',
    target: '#command.verification.mismatched',
    actions: [conclude('mismatched'), { type: 'announce' }],
  },
  { target: '#command.verification.timed_out', actions: [conclude('timed_out'), { type: 'announce' }] },
] as const;
const toDispatch = [{ type: 'dispatch' }, setStatus('dispatched')] as const;

/** The command machine: lifecycle from request to final ack, and verification by the device's state (contract §5). */
export const commandMachine = base.createMachine({
  id: 'command',
  description:
    "A command: its lifecycle from request to final ack and, in parallel, its verification by the device's reported state.",
  type: 'parallel',
  context: initialCommand,
  states: {
    lifecycle: {
      initial: 'submitted',
      on: {
        'ack.received': { guard: 'canCountLateAck', actions: 'countLateAck' },
        cancel: { actions: 'refuseCancel' },
        refuse: { actions: 'refuseRefusal' },
        confirm: { actions: 'refuseConfirmation' },
      },
      states: {
        submitted: {
          description: 'Requested; the safety gateway judges it in the same transition.',
          on: {
            request: { actions: 'judge' },
            'self.judged': [
              { guard: 'isRefused', target: 'rejected', actions: 'recordRequest' },
              {
                guard: 'needsConfirmation',
                target: 'awaiting_confirmation',
                actions: ['recordRequest', 'awaitConfirmation'],
              },
              { guard: 'hasSession', target: 'written', actions: ['recordRequest', ...toDispatch, 'write'] },
              { target: 'queued', actions: ['recordRequest', ...toDispatch] },
            ],
          },
        },
        awaiting_confirmation: {
          description: 'A critical command, or a dry run, that can be confirmed until its token expires.',
          entry: setStatus('awaiting_confirmation'),
          after: { confirmationOver: { target: 'expired', actions: closeConfirmation('expired') } },
          on: {
            confirm: { actions: 'judgeAgain' },
            'self.judged_again': [
              { guard: 'isRefused', actions: 'refuse' },
              // Already confirmed: a gateway that requires another confirmation does not let the command pass.
              { guard: 'needsConfirmation' },
              {
                guard: 'hasSession',
                target: 'written',
                actions: [closeConfirmation('dispatched'), ...toDispatch, 'write'],
              },
              { target: 'queued', actions: [closeConfirmation('dispatched'), ...toDispatch] },
            ],
            cancel: { target: 'cancelled', actions: closeConfirmation('cancelled') },
            refuse: { target: 'cancelled', actions: closeConfirmation('cancelled') },
            'device.revoked': { target: 'cancelled', actions: closeConfirmation('cancelled') },
            'plan.withdrawn': { guard: 'isOfPlan', target: 'cancelled', actions: closeConfirmation('cancelled') },
          },
        },
        queued: {
          description: 'Dispatched but not sent: waits for a session of the device until its ttl expires.',
          after: { ttlOver: 'expired' },
          on: {
            'session.ready': { guard: 'mayWrite', target: 'written', actions: 'write' },
            cancel: 'cancelled',
            'device.revoked': 'cancelled',
            'plan.withdrawn': { guard: 'isOfPlan', target: 'cancelled' },
          },
        },
        written: {
          description:
            'Sent, and possibly received by the device; the timeout counts from the first write, and again from each `in_progress`.',
          initial: 'dispatched',
          after: { answerOver: 'timed_out' },
          on: {
            'ack.received': [
              { guard: hasAckStatus('succeeded'), target: 'succeeded', actions: 'recordAck' },
              { guard: hasAckStatus('failed'), target: 'failed', actions: 'recordAck' },
              // Entered again, so that the timeout starts again.
              { guard: hasAckStatus('in_progress'), target: '.in_progress', reenter: true, actions: 'recordAck' },
              {},
            ],
            'session.ready': { guard: 'mayWriteAgain', actions: 'write' },
            'write.undone': { guard: 'isLastOfSeveralWrites', actions: 'undoLastWrite' },
            'device.revoked': 'timed_out',
          },
          states: {
            dispatched: {
              description: 'No ack from the device yet.',
              on: {
                'ack.received': { guard: hasAckStatus('accepted'), target: 'acknowledged', actions: 'recordAck' },
                'write.undone': { guard: 'isOnlyWrite', target: '#command.lifecycle.queued', actions: 'undoWrite' },
              },
            },
            acknowledged: { description: 'The device has accepted the command.', entry: setStatus('acknowledged') },
            in_progress: {
              description: 'The device is executing the command and may report progress.',
              entry: setStatus('in_progress'),
            },
          },
        },
        timed_out: {
          description: 'Sent but not finished in time: the outcome is unknown, and a late ack is still accepted.',
          entry: ['stampTimeout', setStatus('timed_out')],
          after: { lateWordOver: 'closed' },
          on: {
            'ack.received': [
              { guard: hasAckStatus('succeeded'), target: 'succeeded', actions: 'recordAck' },
              { guard: hasAckStatus('failed'), target: 'failed', actions: 'recordAck' },
            ],
          },
        },
        closed: {
          description: 'Timed out, and late acks are no longer accepted.',
          type: 'final',
          entry: 'close',
        },
        rejected: {
          description: 'The safety gateway refused the command.',
          type: 'final',
          entry: setStatus('rejected'),
        },
        succeeded: {
          description: 'The device reported success.',
          type: 'final',
          entry: setStatus('succeeded'),
        },
        failed: {
          description: 'The device reported a failure.',
          type: 'final',
          entry: setStatus('failed'),
        },
        expired: {
          description: 'Not confirmed, or not sent, in time.',
          type: 'final',
          entry: setStatus('expired'),
        },
        cancelled: {
          description: 'Cancelled before it was sent.',
          type: 'final',
          entry: setStatus('cancelled'),
        },
      },
    },
    // No state is marked final: XState does not deliver raised events to a machine whose regions are all final.
    verification: {
      initial: 'idle',
      on: { 'self.moved': { actions: 'announce' } },
      states: {
        idle: {
          description: 'Not dispatched yet, or ended without success: the expected state is not awaited.',
          on: {
            'self.judged': { guard: 'hasNoExpectedState', target: 'unverifiable', actions: conclude('unverifiable') },
            'self.moved': [
              { guard: 'isDispatched', target: 'watching', actions: 'announce' },
              { guard: 'isEndedUnverifiable', target: 'unverifiable', actions: [conclude('unverifiable'), 'announce'] },
              { actions: 'announce' },
            ],
          },
        },
        watching: {
          description: 'Reported states are compared with the expected state.',
          initial: 'open',
          entry: 'watch',
          exit: 'unwatch',
          on: {
            'state.observed': [
              { guard: 'matches', target: 'verified', actions: ['observe', conclude('verified'), 'announce'] },
              { guard: 'differs', actions: 'observe' },
            ],
            'self.moved': [
              { guard: 'isEnded', target: 'idle', actions: 'announce' },
              { guard: 'isSucceeded', target: '.closing', actions: 'announce' },
              { actions: 'announce' },
            ],
          },
          states: {
            open: {
              description: 'The command has not succeeded yet.',
              on: { 'self.closed': verificationTimeout },
            },
            closing: {
              description: 'The command has succeeded; the expected state must be reported within verify_within_s.',
              after: { verificationOver: verificationTimeout },
            },
          },
        },
        verified: { description: 'The expected state was reported; for an update, the expected firmware.' },
        mismatched: { description: 'States were reported, but not the expected one.' },
        timed_out: { description: 'No state was reported in time.' },
        unverifiable: { description: 'No state is expected.' },
      },
    },
  },
});
