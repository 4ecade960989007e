import type { ActorKind } from '../../../src/machines/outputs.ts';
import type { Machine } from '../api/answer-types.ts';
import { humanize } from '../ui/text-format.ts';

// Plain words for the events and guards of the machines. The pages show the identifier as well.

const shared: Readonly<Record<string, string>> = {
  cancel: 'Cancellation requested',
  register: 'Registered',
};

const events: Readonly<Record<ActorKind, Readonly<Record<string, string>>>> = {
  command: {
    'ack.received': 'Answer of the device',
    'after answer over': 'No answer in time',
    'after confirmation over': 'No confirmation in time',
    afterLateWordOver: 'End of the time for a late answer',
    'after ttl over': 'Not delivered in time',
    'after verification over': 'Expected state not reported in time',
    confirm: 'Confirmed',
    'device.revoked': 'Device revoked',
    'plan.withdrawn': 'Withdrawn by its plan',
    refuse: 'Confirmation refused',
    request: 'Command requested',
    'self.closed': 'Lifecycle ended',
    'self.judged': 'Checked on request',
    'self.judged_again': 'Checked on confirmation',
    'self.moved': 'Status changed',
    'session.ready': 'Device connected',
    'state.observed': 'Device reported its state',
    'write.undone': 'Sending undone',
  },
  device: {
    'ack.reported': 'Answer to a command',
    'after grace over': 'End of the grace period of the previous key',
    delete: 'Deleted',
    'heartbeat.received': 'Heartbeat',
    'hello.received': 'Device signed in',
    'history.import': 'History imported',
    'manifest.register': 'Manifest registered',
    'manifest.update': 'Manifest updated',
    'message.rejected': 'Message of the device rejected',
    patch: 'Details changed',
    'presence.lost': 'Device disconnected',
    reinstate: 'Reinstated',
    revoke: 'Revoked',
    rotate: 'Key rotated',
    'state.reported': 'Device reported its state',
  },
  plan: {
    'after patience': 'End of the time for the planner',
    'after wake up': 'Time to try held steps again',
    'cognition.completed': 'Planner reported the goal as reached',
    'cognition.excused': 'Planner given more time',
    'cognition.failed': 'Planner reported a failure',
    'cognition.suspended': 'Planner suspended its work',
    'cognition.unheard': 'Planner sent nothing',
    'command.moved': 'Status of a command changed',
    create: 'Plan requested',
    'node.proposed': 'Planner proposed a step',
    'self.advanced': 'Plan advanced',
    'step.held': 'Step held',
    'step.refused': 'Step refused',
    'tenant.resumed': 'Tenant resumed',
    'tenant.suspended': 'Tenant suspended',
  },
  tenant: {
    'policy.set': 'Safety policy changed',
    resume: 'Resumed',
    suspend: 'Suspended',
    'tier.set': 'Tier changed',
  },
};

/** By the condition as the service writes it, without the parameter of `has ack status`, `phase is` and `planner is`. */
const guards: Readonly<Record<string, string>> = {
  'assigns place': 'with a home or room',
  'can count late ack': 'from its device, not too many late ones',
  'changes step': 'it changes a step',
  differs: 'not the expected state',
  'has ack status': 'the device reports',
  'has grace expired': 'the grace period is over',
  'has held steps': 'steps are held',
  'has no expected state': 'no state is expected',
  'has no wake': 'no retry is planned',
  'has outstanding steps': 'steps are under way',
  'has session': 'the device is connected',
  'has steps under way': 'steps are under way',
  'has wake': 'a retry is planned',
  'is active': 'the device is active',
  'is current timeout': 'it concerns the current deadline',
  'is deadline changed': 'the deadline has changed',
  'is dispatched': 'already sent',
  'is ended': 'ended without an effect',
  'is ended unverifiable': 'ended without an effect, and no state is expected',
  'is key ended': 'signed with a key that is no longer valid',
  'is key valid': 'signed with a valid key',
  'is last of several writes': 'it was sent before',
  'is new notice': 'the notice differs',
  'is new policy': 'the policy differs',
  'is new tier': 'the tier differs',
  'is next key': 'with the next version of the key',
  'is of plan': 'it belongs to this plan',
  'is only write': 'it was not sent before',
  'is refused': 'not allowed',
  'is step requested': 'the step is requested',
  'is succeeded': 'already succeeded',
  'is unconfirmed': 'looser, without the required confirmation',
  matches: 'the expected state',
  'may write': 'it may be sent',
  'may write again': 'it may be sent again',
  'needs confirmation': 'it needs a confirmation',
  'phase is': 'the plan is',
  'planner is': 'the planner is',
  'saw state': 'the device reported another state',
};

/** Null for an event that has no words: one of a machine that this build does not know. */
export const wordsOfEvent = (kind: ActorKind, event: string): string | null =>
  events[kind][event] ?? events[kind][camelCase(event)] ?? shared[event] ?? null;

/** Regions and states whose identifier does not describe them. */
const states: Readonly<Record<string, string>> = {
  clock: 'retries',
  mind: 'planner',
  none: 'no planner',
  still: 'no retry',
  unheard: 'nothing received',
};

/** Title of a region or state by its identifier, without the states around it. */
export const stateTitle = (name: string): string => states[name] ?? humanize(name);

/** `link.online` → `link › online`. */
export const pathTitle = (path: string): string => path.split('.').map(stateTitle).join(' › ');

const camelCase = (text: string): string => text.replace(/ [a-z]/g, ([, letter]) => letter?.toUpperCase() ?? '');

export const eventTitle = (kind: ActorKind, event: string): string =>
  wordsOfEvent(kind, event) ?? humanize(event.replace(/^self\./, ''));

/** Null for a guard that has no words. `has ack status failed` → `the device reports failed`. */
export function wordsOfGuard(when: string): string | null {
  const parameter = /^(has ack status|phase is|planner is) (.+)$/.exec(when);
  if (parameter === null) return guards[when] ?? null;
  return `${guards[parameter[1] as string]} ${humanize(parameter[2] as string)}`;
}

export const guardTitle = (when: string): string => wordsOfGuard(when) ?? humanize(when);

type Labelled = Pick<Machine['transitions'][number], 'event' | 'when'>;

/** `Answer of the device [the device reports succeeded]`; an event that the machine raises itself is labelled only by its condition. */
export function labelOf(kind: ActorKind, { event, when }: Labelled): string {
  const condition = when === null ? '' : `[${guardTitle(when)}]`;
  return event.startsWith('self.')
    ? condition || eventTitle(kind, event)
    : `${eventTitle(kind, event)} ${condition}`.trim();
}

/** The label and, in brackets, the identifiers of the event and its guard. */
export const explainedLabelOf = (kind: ActorKind, transition: Labelled): string =>
  `${labelOf(kind, transition)} (${transition.event}${transition.when === null ? '' : `: ${transition.when}`})`;
