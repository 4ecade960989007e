import type { EpochMs } from '../domain/values.ts';
import type { Envelope } from './envelope.ts';

/** Whether the event came from the device itself. Messages of a device must commit in order of arrival. */
export const isFromDevice = (envelope: Envelope): boolean =>
  envelope.event.by?.kind === 'device' && envelope.outboxKey === null && !envelope.sentWithinBatch;

/**
 * Splits envelopes, in order, into waiting and expired ones. If a message of a device has expired, all its later
 * messages expire with it: the device resends the first one, which must not commit after the others. Answered envelopes
 * are dropped.
 */
export function splitExpired(
  envelopes: readonly Envelope[],
  now: EpochMs,
): { waiting: Envelope[]; expired: Envelope[] } {
  const waiting: Envelope[] = [];
  const expired: Envelope[] = [];
  let afterExpired = false;
  for (const envelope of envelopes) {
    const isExpired = envelope.answered || now - envelope.sentAt >= envelope.timeoutMs;
    if (!envelope.answered) (isExpired || (afterExpired && isFromDevice(envelope)) ? expired : waiting).push(envelope);
    afterExpired ||= isExpired && isFromDevice(envelope);
  }
  return { waiting, expired };
}
