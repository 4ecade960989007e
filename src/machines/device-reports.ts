import { hasKeyEnded } from '../domain/device-key.ts';
import { expectsFirmware, isSameFirmware } from '../domain/firmware-verification.ts';
import type { ReportPosition } from '../domain/history/rules.ts';
import { type JsonSpan, spanLength } from '../domain/json/span.ts';
import type { MessageRefusalCode } from '../domain/refusals.ts';
import { acceptSequence, judgeSequence, type ReplayWindow } from '../domain/replay-window.ts';
import { telemetryFields } from '../domain/telemetry.ts';
import { applyReport, contains } from '../domain/twin.ts';
import type { EpochMs, JsonObject } from '../domain/values.ts';
import { changeFixed, changeLive, type Decision, emit } from './decision.ts';
import { importedSamples, sampleReport, sampleTelemetry } from './device-samples.ts';
import type { DeviceContext, DeviceEvent, MessageHeader, VerificationWatch } from './device-types.ts';
import type { ActorMessage, ActorRef, Output } from './outputs.ts';
import { applyLateReport, orderAfter, type ReportOrder, recordReport, unsupersededPart } from './report-order.ts';

type DeviceEventOf<Type extends DeviceEvent['type']> = Extract<DeviceEvent, { type: Type }>;
type SignedEvent = Extract<DeviceEvent, { header: object }>;

/**
 * False if the key that verified the message has ended since: a message can wait in a queue, and a reinstatement clears
 * the replay window, so no other check would refuse it.
 */
export const isKeyValid = (context: DeviceContext, { header }: SignedEvent): boolean =>
  !hasKeyEnded(context.fixed, header.keyVersion);

export const isKeyEnded = (context: DeviceContext, event: SignedEvent): boolean => !isKeyValid(context, event);

/** Contract §4: fresh sequence numbers are consumed, repeats are acknowledged and ignored, others are refused. */
function withSequenceCheck(
  context: DeviceContext,
  header: MessageHeader,
  fresh: (sequence: AcceptedSequence) => Decision<DeviceContext>,
): Decision<DeviceContext> {
  const { messageId } = header;
  const sequenceNumber = header.sequenceNumber ?? Math.min(context.live.replay.highest + 1, Number.MAX_SAFE_INTEGER);
  switch (judgeSequence(context.live.replay, sequenceNumber, messageId)) {
    case 'fresh': {
      const replay = acceptSequence(context.live.replay, sequenceNumber, messageId);
      const order = orderAfter(context.live.reported.order, context.live.replay, replay);
      return fresh({ sequence: sequenceNumber, order, replay });
    }
    case 'repeat':
      return emit({ type: 'message.accepted', repeat: true });
    case 'reused':
      return refuseMessage('SEQUENCE_REUSED', null);
    case 'too_old':
      return refuseMessage('SEQUENCE_TOO_OLD', null);
  }
}

/** An accepted sequence number, with the replay window and the order of reports after it. */
interface AcceptedSequence {
  sequence: number;
  replay: ReplayWindow;
  order: ReportOrder | null;
}

/** Records the sequence number of a message that reports no state. */
function recordSequence(context: DeviceContext, { replay, order }: AcceptedSequence): Pick<DeviceContext, 'live'> {
  const { reported } = context.live;
  return changeLive(context, { replay, reported: order === reported.order ? reported : { ...reported, order } });
}

const refuseMessage = (code: MessageRefusalCode, changes: Partial<DeviceContext> | null): Decision<DeviceContext> => ({
  changes,
  outputs: [{ type: 'message.refused', code }],
});

const accepted: Extract<Output, { type: 'message.accepted' }> = { type: 'message.accepted', repeat: false };

const NO_OUTPUTS: readonly Output[] = [];

/** Where a message is among those of its device: reports that arrived in another order than their numbers leave all samples. */
function positionOf({ live: { replay } }: DeviceContext, { sequence, order }: AcceptedSequence): ReportPosition {
  if (sequence < replay.highest) return 'late';
  return order === null ? 'order' : 'gap';
}

const reportedAt = ({ at, header }: Pick<DeviceEventOf<'hello.received'>, 'at' | 'header'>) => ({
  ...{ at, deviceAt: header.deviceAt ?? at, limit: header.historyBytes },
});

/** Sent to subscribers, and not stored with the device. */
function telemetryIn(
  { fixed: { id: deviceId, tenantId } }: DeviceContext,
  event: DeviceEventOf<'hello.received' | 'heartbeat.received'>,
): readonly Output[] {
  const { at, header, telemetry = {} } = event;
  const battery = event.type === 'heartbeat.received' ? event.battery : undefined;
  if (battery === undefined && Object.keys(telemetry).length === 0) return NO_OUTPUTS;
  const reported = { telemetry, ...(battery !== undefined && { battery }) };
  return [{ type: 'device.telemetry', tenantId, deviceId, ...reported, deviceAt: header.deviceAt ?? at, at }];
}

/** Not subject to the replay window: a device that lost its counter receives the number to continue from. */
export function applyHello(context: DeviceContext, event: DeviceEventOf<'hello.received'>): Decision<DeviceContext> {
  const { firmware, watches = [] } = event;
  const { keyVersion } = context.fixed;
  const { replay } = context.live;
  const isNewFirmware = firmware !== undefined && firmware !== context.fixed.firmware;
  const change = isNewFirmware && { previousFirmware: context.fixed.firmware };
  const hello: Output = { type: 'hello.accepted', lastSequence: replay.highest, keyVersion, ...change };
  const { samples, outputs: sampled } = sampleTelemetry(
    context,
    telemetryFields(event.telemetry ?? {}),
    {
      ...reportedAt(event),
      sequence: replay.highest,
      position: context.live.reported.order === null ? 'order' : 'gap',
    },
    true,
  );
  const outputs: Output[] = [hello, ...telemetryIn(context, event), ...sampled];
  if (firmware !== undefined) {
    for (const watch of watches) notifyFirmwareWatch(outputs, context.fixed.id, firmware, watch);
  }
  const fixed = isNewFirmware ? changeFixed(context, { firmware }) : null;
  const live = samples === context.live.samples ? null : changeLive(context, { samples });
  return { changes: (fixed || live) && { ...fixed, ...live }, outputs };
}

export const applyHeartbeat = (
  context: DeviceContext,
  event: DeviceEventOf<'heartbeat.received'>,
): Decision<DeviceContext> =>
  withSequenceCheck(context, event.header, (consumed) => {
    const { battery, telemetry = {} } = event;
    const { samples, outputs } = sampleTelemetry(
      context,
      { ...telemetryFields(telemetry), ...(battery !== undefined && { battery }) },
      { ...reportedAt(event), sequence: consumed.sequence, position: positionOf(context, consumed) },
      false,
    );
    const { live } = recordSequence(context, consumed);
    return {
      changes: { live: { ...live, samples } },
      outputs: [accepted, ...telemetryIn(context, event), ...outputs],
    };
  });

export const applyRejected = (
  context: DeviceContext,
  event: DeviceEventOf<'message.rejected'>,
): Decision<DeviceContext> =>
  withSequenceCheck(context, event.header, (sequence) => refuseMessage(event.code, recordSequence(context, sequence)));

export const applyState = (context: DeviceContext, event: DeviceEventOf<'state.reported'>): Decision<DeviceContext> =>
  withSequenceCheck(context, event.header, (sequence) => applyStateReport(context, sequence, event.state, event));

/**
 * The state in an ack is reported to the command before the ack itself: a succeeded command is then verified at once,
 * and is never visible as waiting for a state from the same message.
 */
export const applyAck = (context: DeviceContext, event: DeviceEventOf<'ack.reported'>): Decision<DeviceContext> =>
  withSequenceCheck(context, event.header, (sequence) => {
    if (!event.known) return refuseMessage('UNKNOWN_COMMAND', recordSequence(context, sequence));
    const ackOutput: Output = {
      type: 'actor.tell',
      to: { kind: 'command', id: event.commandId },
      event: {
        ...{ type: 'ack.received', deviceId: context.fixed.id, ack: event.ack },
        ...(event.state && { sequence: sequence.sequence }),
      },
    };
    if (!event.state) return { changes: recordSequence(context, sequence), outputs: [accepted, ackOutput] };
    return applyStateReport(context, sequence, event.state, {
      at: event.at,
      header: event.header,
      full: false,
      watches: event.watches,
      finalOutput: ackOutput,
    });
  });

interface Report {
  at: EpochMs;
  header: MessageHeader;
  full: boolean;
  /** The JSON text of the report. */
  written?: JsonSpan | undefined;
  watches: readonly VerificationWatch[];
  /** Emitted last, if the state was accepted. */
  finalOutput?: Output;
}

function applyStateReport(
  context: DeviceContext,
  consumed: AcceptedSequence,
  report: JsonObject,
  details: Report,
): Decision<DeviceContext> {
  const { full, written, at, header } = details;
  const times = reportedAt({ at, header });
  const { sequence, order, replay } = consumed;
  const twin = { state: context.live.state, bytes: context.live.reported.bytes };
  const before = sequence < context.live.replay.highest ? context.live.reported.order : null;
  const result = before
    ? applyLateReport(twin, report, full, sequence, before)
    : applyReport(twin, report, full, written === undefined ? null : spanLength(written));
  if (!result.ok) return refuseMessage(result.code, recordSequence(context, consumed));
  const { state, bytes } = result.twin;
  const stateVersion = context.live.stateVersion + 1;
  const { id: deviceId, tenantId } = context.fixed;
  const text = result.coversState && before === null ? written : undefined;
  const outputs: Output[] = [
    before === null ? accepted : { ...accepted, applied: unsupersededPart(report, sequence, before) },
    {
      type: 'device.state',
      tenantId,
      deviceId,
      state,
      written: text,
      stateVersion,
      report,
      reportText: written,
      deviceAt: times.deviceAt,
      sequence,
      at,
    },
  ];
  for (const watch of details.watches) notifyWatch(outputs, { deviceId, state, sequence }, watch);
  if (details.finalOutput) outputs.push(details.finalOutput);
  const reportedNow = { ...times, sequence, position: positionOf(context, consumed) };
  const { samples, outputs: sampled } = sampleReport(context, report, written, reportedNow);
  outputs.push(...sampled);
  const reported = { at, bytes, order: order && recordReport(order, report, full, sequence) };
  // Without `changeLive`, which takes 0.1 µs longer, of 1.9 µs for a report.
  return { changes: { live: { ...context.live, state, stateVersion, reported, replay, samples } }, outputs };
}

/** Adds reports to the history alone. */
export function importHistory(
  context: DeviceContext,
  { at, reports }: DeviceEventOf<'history.import'>,
): Decision<DeviceContext> {
  const { id: deviceId, tenantId } = context.fixed;
  const samples = importedSamples(context, at, reports);
  const stored: Output[] = samples.length === 0 ? [] : [...samples, { type: 'import.put', at }];
  return { changes: null, outputs: [...stored, { type: 'history.imported', tenantId, deviceId }] };
}

/** Always reports a match, but a mismatch only once, which is enough to distinguish it from a missing report. */
function notifyWatch(
  outputs: Output[],
  { deviceId, state, sequence }: { deviceId: string; state: JsonObject; sequence: number },
  watch: VerificationWatch,
): void {
  if (expectsFirmware(watch.expected) && !Object.hasOwn(state, 'firmware')) return;
  const matches = contains(state, watch.expected);
  if (!matches && watch.seen) return;
  outputs.push(observedBy(watch, { deviceId, observed: watchedPart(state, watch.expected), matches, sequence }));
}

/** As `notifyWatch`, for the version in a `hello`. */
function notifyFirmwareWatch(outputs: Output[], deviceId: string, firmware: string, watch: VerificationWatch): void {
  if (!expectsFirmware(watch.expected)) return;
  const matches = isSameFirmware(firmware, watch.expected.firmware);
  if (matches || !watch.seen) outputs.push(observedBy(watch, { deviceId, observed: { firmware }, matches }));
}

function observedBy(
  { commandId }: VerificationWatch,
  observation: Omit<Extract<ActorMessage, { type: 'state.observed' }>, 'type'>,
): Output {
  const to: ActorRef = { kind: 'command', id: commandId };
  return { type: 'actor.tell', to, event: { type: 'state.observed', ...observation } };
}

/** The reported values of the expected properties only, because the event is stored in the outbox. */
function watchedPart(state: JsonObject, expected: JsonObject): JsonObject {
  const entries = Object.keys(expected).filter((key) => Object.hasOwn(state, key));
  return Object.fromEntries(entries.map((key) => [key, state[key] ?? null]));
}
