import { type JsonSpan, spanBytes } from '../domain/json-span.ts';
import type { MessageRefusalCode } from '../domain/refusals.ts';
import { acceptSequence, judgeSequence, type ReplayWindow } from '../domain/replay.ts';
import { applyReport, contains } from '../domain/twin.ts';
import type { EpochMs, JsonObject } from '../domain/values.ts';
import { type Decision, only } from './decision.ts';
import { hasKeyEnded } from './device-administration.ts';
import type { DeviceContext, DeviceEvent, MessageMark, Watch } from './device-types.ts';
import type { ActorRef, Output } from './outputs.ts';
import { appliedOf, applyLate, noted, orderAfter, type ReportOrder } from './report-order.ts';

type Of<Type extends DeviceEvent['type']> = Extract<DeviceEvent, { type: Type }>;
type SignedEvent = Extract<DeviceEvent, { mark: object }>;

/**
 * False when the key that verified the message has ended since: a message can wait in a queue, and a reinstatement empties
 * the replay window, so that nothing else would refuse it.
 */
export const isKeyValid = (context: DeviceContext, { mark }: SignedEvent): boolean =>
  !hasKeyEnded(context, mark.keyVersion);

export const isKeyEnded = (context: DeviceContext, event: SignedEvent): boolean => !isKeyValid(context, event);

/** Contract §4: fresh numbers are used up, repeats are acknowledged and ignored, the rest is refused. */
function judged(
  context: DeviceContext,
  mark: MessageMark,
  fresh: (taken: Taken) => Decision<DeviceContext>,
): Decision<DeviceContext> {
  const { sequenceNumber, messageId } = mark;
  switch (judgeSequence(context.replay, sequenceNumber, messageId)) {
    case 'fresh': {
      const replay = acceptSequence(context.replay, sequenceNumber, messageId);
      const order = orderAfter(context.reported.order, context.replay, replay);
      return fresh({ sequence: sequenceNumber, order, window: windowOf(context, replay, order) });
    }
    case 'repeat':
      return only({ type: 'message.accepted', repeat: true });
    case 'reused':
      return refused('SEQUENCE_REUSED', null);
    case 'too_old':
      return refused('SEQUENCE_TOO_OLD', null);
  }
}

/** A number that was accepted. */
interface Taken {
  sequence: number;
  order: ReportOrder | null;
  window: Window;
}

type Window = Pick<DeviceContext, 'replay'> & Partial<Pick<DeviceContext, 'reported'>>;

const windowOf = ({ reported }: DeviceContext, replay: ReplayWindow, order: ReportOrder | null): Window =>
  order === reported.order ? { replay } : { replay, reported: { ...reported, order } };

const refused = (code: MessageRefusalCode, window: Window | null): Decision<DeviceContext> => ({
  changes: window,
  outputs: [{ type: 'message.refused', code }],
});

const accepted: Extract<Output, { type: 'message.accepted' }> = { type: 'message.accepted', repeat: false };

/** Outside the replay window: a device that lost its counter learns where to go on. */
export function takeHello(context: DeviceContext, { firmware }: Of<'hello.received'>): Decision<DeviceContext> {
  const { replay, keyVersion } = context;
  const adopts = firmware !== undefined && firmware !== context.firmware;
  return {
    changes: adopts ? { firmware } : null,
    outputs: [{ type: 'hello.accepted', lastSequence: replay.highest, keyVersion }],
  };
}

export const takeHeartbeat = (context: DeviceContext, event: Of<'heartbeat.received'>): Decision<DeviceContext> =>
  judged(context, event.mark, ({ window }) => ({ changes: window, outputs: [accepted] }));

export const takeRejected = (context: DeviceContext, event: Of<'message.rejected'>): Decision<DeviceContext> =>
  judged(context, event.mark, ({ window }) => refused(event.code, window));

export const takeState = (context: DeviceContext, event: Of<'state.reported'>): Decision<DeviceContext> =>
  judged(context, event.mark, (taken) => merged(context, taken, event.state, event));

/**
 * The state that an acknowledgement brings is told before the word itself: a command that succeeded finds its state
 * verified already, and nobody sees it wait for what came in the same message.
 */
export const takeAck = (context: DeviceContext, event: Of<'ack.reported'>): Decision<DeviceContext> =>
  judged(context, event.mark, (taken) => {
    if (!event.known) return refused('UNKNOWN_COMMAND', taken.window);
    const word: Output = {
      type: 'actor.tell',
      to: { kind: 'command', id: event.commandId },
      event: { type: 'ack.received', deviceId: context.id, ack: event.ack },
    };
    if (!event.state) return { changes: taken.window, outputs: [accepted, word] };
    return merged(context, taken, event.state, { at: event.at, full: false, watches: event.watches, last: word });
  });

interface Report {
  at: EpochMs;
  full: boolean;
  /** The JSON text of the report. */
  written?: JsonSpan | undefined;
  watches: readonly Watch[];
  /** Said last, when the state was taken. */
  last?: Output;
}

function merged(
  context: DeviceContext,
  { sequence, order, window }: Taken,
  report: JsonObject,
  how: Report,
): Decision<DeviceContext> {
  const { full, written, at } = how;
  const twin = { state: context.state, bytes: context.reported.bytes };
  const before = sequence < context.replay.highest ? context.reported.order : null;
  const taken = before
    ? applyLate(twin, report, full, sequence, before)
    : applyReport(twin, report, full, written === undefined ? null : spanBytes(written));
  if (!taken.ok) return refused(taken.code, window);
  const { state, bytes } = taken.twin;
  const stateVersion = context.stateVersion + 1;
  const { id: deviceId, tenantId } = context;
  const text = taken.whole && before === null ? written : undefined;
  const outputs: Output[] = [
    before === null ? accepted : { ...accepted, applied: appliedOf(report, sequence, before) },
    { type: 'device.state', tenantId, deviceId, state, written: text, stateVersion, at },
  ];
  for (const watch of how.watches) observe(outputs, deviceId, state, watch);
  if (how.last) outputs.push(how.last);
  const reported = { at, bytes, order: order && noted(order, report, full, sequence) };
  return { changes: { replay: window.replay, state, stateVersion, reported }, outputs };
}

/** A match is always told; of what does not match the command hears once, which is enough to tell silence from a mismatch. */
function observe(outputs: Output[], deviceId: string, state: JsonObject, watch: Watch): void {
  const matches = contains(state, watch.expected);
  if (!matches && watch.seen) return;
  const to: ActorRef = { kind: 'command', id: watch.commandId };
  const observed = partOf(state, watch.expected);
  outputs.push({ type: 'actor.tell', to, event: { type: 'state.observed', deviceId, observed, matches } });
}

/** The reported values of the properties that are waited for, not the whole state: it travels through the outbox. */
function partOf(state: JsonObject, expected: JsonObject): JsonObject {
  const entries = Object.keys(expected).filter((key) => Object.hasOwn(state, key));
  return Object.fromEntries(entries.map((key) => [key, state[key] ?? null]));
}
