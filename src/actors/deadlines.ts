import type { EpochMs } from '../domain/values.ts';
import type { Envelope } from './envelope.ts';

/** What a device itself said. Its words are kept in the order in which they came. */
export const isFromDevice = (envelope: Envelope): boolean =>
  envelope.event.by?.kind === 'device' && envelope.outboxKey === null && !envelope.sentWithinBatch;

/**
 * Parts an actor's letters, in their order, into those that wait on and those whose sender waits no longer. With a
 * device's word goes all that it said after it: it sends the first again, which must not be kept after the second. An
 * answered letter is in neither.
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
