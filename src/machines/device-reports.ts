import { type JsonSpan, spanLength } from '../domain/json/span.ts';
import type { MessageRefusalCode } from '../domain/refusals.ts';
import { acceptSequence, judgeSequence, type ReplayWindow } from '../domain/replay-window.ts';
import { applyReport, contains } from '../domain/twin.ts';
import type { EpochMs, JsonObject } from '../domain/values.ts';
import { type Decision, emit } from './decision.ts';
import { hasKeyEnded } from './device-administration.ts';
import type { DeviceContext, DeviceEvent, MessageHeader, VerificationWatch } from './device-types.ts';
import type { ActorRef, Output } from './outputs.ts';
import { applyLateReport, orderAfter, type ReportOrder, recordReport, unsupersededPart } from './report-order.ts';

type EventOf<Type extends DeviceEvent['type']> = Extract<DeviceEvent, { type: Type }>;
type SignedEvent = Extract<DeviceEvent, { mark: object }>;

/**
 * False when the key that verified the message has ended since: a message can wait in a queue, and a reinstatement empties
 * the replay window, so that nothing else would refuse it.
 */
export const isKeyValid = (context: DeviceContext, { mark }: SignedEvent): boolean =>
  !hasKeyEnded(context, mark.keyVersion);

export const isKeyEnded = (context: DeviceContext, event: SignedEvent): boolean => !isKeyValid(context, event);

/** Contract §4: fresh numbers are used up, repeats are acknowledged and ignored, the rest is refused. */
function withSequenceCheck(
  context: DeviceContext,
  mark: MessageHeader,
  fresh: (taken: AcceptedSequence) => Decision<DeviceContext>,
): Decision<DeviceContext> {
  const { sequenceNumber, messageId } = mark;
  switch (judgeSequence(context.replay, sequenceNumber, messageId)) {
    case 'fresh': {
      const replay = acceptSequence(context.replay, sequenceNumber, messageId);
      const order = orderAfter(context.reported.order, context.replay, replay);
      return fresh({ sequence: sequenceNumber, order, window: windowOf(context, replay, order) });
    }
    case 'repeat':
      return emit({ type: 'message.accepted', repeat: true });
    case 'reused':
      return refuseMessage('SEQUENCE_REUSED', null);
    case 'too_old':
      return refuseMessage('SEQUENCE_TOO_OLD', null);
  }
}

/** A number that was accepted. */
interface AcceptedSequence {
  sequence: number;
  order: ReportOrder | null;
  window: Window;
}

type Window = Pick<DeviceContext, 'replay'> & Partial<Pick<DeviceContext, 'reported'>>;

const windowOf = ({ reported }: DeviceContext, replay: ReplayWindow, order: ReportOrder | null): Window =>
  order === reported.order ? { replay } : { replay, reported: { ...reported, order } };

const refuseMessage = (code: MessageRefusalCode, window: Window | null): Decision<DeviceContext> => ({
  changes: window,
  outputs: [{ type: 'message.refused', code }],
});

const accepted: Extract<Output, { type: 'message.accepted' }> = { type: 'message.accepted', repeat: false };

/** Outside the replay window: a device that lost its counter learns where to go on. */
export function takeHello(context: DeviceContext, { firmware }: EventOf<'hello.received'>): Decision<DeviceContext> {
  const { replay, keyVersion } = context;
  const adopts = firmware !== undefined && firmware !== context.firmware;
  return {
    changes: adopts ? { firmware } : null,
    outputs: [{ type: 'hello.accepted', lastSequence: replay.highest, keyVersion }],
  };
}

export const takeHeartbeat = (context: DeviceContext, event: EventOf<'heartbeat.received'>): Decision<DeviceContext> =>
  withSequenceCheck(context, event.mark, ({ window }) => ({ changes: window, outputs: [accepted] }));

export const takeRejected = (context: DeviceContext, event: EventOf<'message.rejected'>): Decision<DeviceContext> =>
  withSequenceCheck(context, event.mark, ({ window }) => refuseMessage(event.code, window));

export const takeState = (context: DeviceContext, event: EventOf<'state.reported'>): Decision<DeviceContext> =>
  withSequenceCheck(context, event.mark, (taken) => applyStateReport(context, taken, event.state, event));

/**
 * The state that an acknowledgement brings is told before the word itself: a command that succeeded finds its state
 * verified already, and nobody sees it wait for what came in the same message.
 */
export const takeAck = (context: DeviceContext, event: EventOf<'ack.reported'>): Decision<DeviceContext> =>
  withSequenceCheck(context, event.mark, (taken) => {
    if (!event.known) return refuseMessage('UNKNOWN_COMMAND', taken.window);
    const word: Output = {
      type: 'actor.tell',
      to: { kind: 'command', id: event.commandId },
      event: { type: 'ack.received', deviceId: context.id, ack: event.ack },
    };
    if (!event.state) return { changes: taken.window, outputs: [accepted, word] };
    return applyStateReport(context, taken, event.state, {
      at: event.at,
      full: false,
      watches: event.watches,
      finalOutput: word,
    });
  });

interface Report {
  at: EpochMs;
  full: boolean;
  /** The JSON text of the report. */
  written?: JsonSpan | undefined;
  watches: readonly VerificationWatch[];
  /** Said last, when the state was taken. */
  finalOutput?: Output;
}

function applyStateReport(
  context: DeviceContext,
  { sequence, order, window }: AcceptedSequence,
  report: JsonObject,
  how: Report,
): Decision<DeviceContext> {
  const { full, written, at } = how;
  const twin = { state: context.state, bytes: context.reported.bytes };
  const before = sequence < context.replay.highest ? context.reported.order : null;
  const taken = before
    ? applyLateReport(twin, report, full, sequence, before)
    : applyReport(twin, report, full, written === undefined ? null : spanLength(written));
  if (!taken.ok) return refuseMessage(taken.code, window);
  const { state, bytes } = taken.twin;
  const stateVersion = context.stateVersion + 1;
  const { id: deviceId, tenantId } = context;
  const text = taken.coversState && before === null ? written : undefined;
  const outputs: Output[] = [
    before === null ? accepted : { ...accepted, applied: unsupersededPart(report, sequence, before) },
    { type: 'device.state', tenantId, deviceId, state, written: text, stateVersion, at },
  ];
  for (const watch of how.watches) notifyWatch(outputs, deviceId, state, watch);
  if (how.finalOutput) outputs.push(how.finalOutput);
  const reported = { at, bytes, order: order && recordReport(order, report, full, sequence) };
  return { changes: { replay: window.replay, state, stateVersion, reported }, outputs };
}

/** A match is always told; of what does not match the command hears once, which is enough to tell silence from a mismatch. */
function notifyWatch(outputs: Output[], deviceId: string, state: JsonObject, watch: VerificationWatch): void {
  const matches = contains(state, watch.expected);
  if (!matches && watch.seen) return;
  const to: ActorRef = { kind: 'command', id: watch.commandId };
  const observed = watchedPart(state, watch.expected);
  outputs.push({ type: 'actor.tell', to, event: { type: 'state.observed', deviceId, observed, matches } });
}

/** The reported values of the properties that are waited for, not the whole state: it travels through the outbox. */
function watchedPart(state: JsonObject, expected: JsonObject): JsonObject {
  const entries = Object.keys(expected).filter((key) => Object.hasOwn(state, key));
  return Object.fromEntries(entries.map((key) => [key, state[key] ?? null]));
}
