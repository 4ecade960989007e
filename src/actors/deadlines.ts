import { type Clock, elapsedOf } from '../domain/clock.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { EpochMs, Milliseconds } from '../domain/values.ts';
import type { MachineEvent } from '../machines/definition.ts';
import { CommitUnknown, StoreUnavailable } from '../store/contract.ts';
import { bypassesLimits } from './admission.ts';
import type { Envelope, InternalSendOptions } from './envelope.ts';
import type { RuntimeLimits } from './runtime-limits.ts';

/** A list of envelopes in order of arrival. */
export interface Mailbox {
  mailbox: Envelope[];
}

/** Events that were taken from a mailbox, and decided: the part of a unit of work that senders wait for. */
export interface DecidedEvents {
  actor: Mailbox;
  decisions: readonly { envelope: Envelope }[];
}

/** Whether the sender still waits, now or `laterMs` milliseconds later. */
export type StillWaits = (laterMs?: number) => boolean;

/** Longest time between two checks of a store that does not answer; a shorter timeout is checked four times. */
const CHECK_MS = 500;

/**
 * Deadlines: decides how long senders wait for a store that does not answer. An envelope carries its deadline; while
 * the store does not answer, it is rejected after it wherever it waits: in a mailbox, in the activation queue or in a
 * commit. A store that answers, however slowly, keeps its senders waiting.
 *
 * A failed attempt is reported by the component that made it (`rejectExpired`). A store that does not answer for long is
 * detected here: after failed commits the senders in the queue are answered too, whose turn may be far away; and while
 * commits are in flight, so are the senders of those, and the eventual result is discarded.
 */
export class Deadlines {
  readonly #commits = new Map<readonly DecidedEvents[], PromiseWithResolvers<void>>();
  #lastAnswerAt = 0;
  /** A commit has failed without an answer, none was answered since, and events have waited ever since. */
  #isFailing = false;
  #timer: NodeJS.Timeout | null = null;

  readonly #clock: Clock;
  readonly #limits: RuntimeLimits;
  #queuedMailboxes: () => Iterable<Mailbox> = () => [];

  constructor(clock: Clock, limits: RuntimeLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  sizes(): CollectionSizes {
    return { turns_in_flight: this.#commits.size };
  }

  /** Sets the mailboxes whose events wait for a later commit. */
  watch(queuedMailboxes: () => Iterable<Mailbox>): void {
    this.#queuedMailboxes = queuedMailboxes;
  }

  /** The time until which the sender of an event waits; infinite for events that are durable elsewhere. */
  deadlineOf(event: MachineEvent, internal: InternalSendOptions, now: EpochMs): EpochMs {
    if (bypassesLimits(internal)) return Number.POSITIVE_INFINITY;
    return now + (event.by?.kind === 'device' ? this.#limits.deviceTimeoutMs : this.#limits.callerTimeoutMs);
  }

  /** Whether a caller that begins to wait now still waits, then or some milliseconds later. */
  callerWaits(): StillWaits {
    return this.#within(this.#limits.callerTimeoutMs);
  }

  /** The same for a device, which waits longest. */
  deviceWaits(): StillWaits {
    return this.#within(this.#limits.deviceTimeoutMs);
  }

  /** Rejects the expired envelopes of a mailbox after an attempt without an answer; returns whether any are left. */
  rejectExpired(owner: Mailbox, reason: Error): boolean {
    const { waiting, expired } = splitExpired(owner.mailbox, this.#clock.now());
    for (const envelope of expired) envelope.reject(reason);
    owner.mailbox = waiting;
    return waiting.length > 0;
  }

  commitStarted(units: readonly DecidedEvents[]): void {
    if (this.#commits.size === 0 && !this.#isFailing) this.#lastAnswerAt = elapsedOf(this.#clock);
    this.#commits.set(units, Promise.withResolvers());
    this.#arm();
  }

  commitEnded(units: readonly DecidedEvents[]): void {
    this.#commits.get(units)?.resolve();
    this.#commits.delete(units);
  }

  /** A commit was answered, or its data refused: the store is reachable. */
  storeAnswered(): void {
    this.#isFailing = false;
    this.#lastAnswerAt = elapsedOf(this.#clock);
  }

  /** No event waits for a commit: a later failure has nothing to do with the earlier ones. */
  queueDrained(): void {
    this.#isFailing = false;
  }

  /** An attempt to commit had no answer. */
  commitFailed(): void {
    this.#isFailing = true;
    if (this.#isSilent()) this.#rejectQueued();
  }

  #within(timeoutMs: Milliseconds): StillWaits {
    const until = elapsedOf(this.#clock) + timeoutMs;
    return (laterMs = 0) => elapsedOf(this.#clock) + laterMs < until;
  }

  #arm(): void {
    if (this.#timer !== null) return;
    const checkMs = Math.min(CHECK_MS, this.#limits.callerTimeoutMs / 4);
    // After a pause of this process, timers run before pending socket reads: an answer may be waiting to be read.
    this.#timer = setTimeout(() => setImmediate(() => this.#check()), checkMs).unref();
  }

  #check(): void {
    this.#timer = null;
    if (this.#commits.size === 0) return;
    if (this.#isSilent()) this.#storeIsSilent();
    this.#arm();
  }

  #isSilent(): boolean {
    return elapsedOf(this.#clock) - this.#lastAnswerAt >= this.#limits.callerTimeoutMs;
  }

  #storeIsSilent(): void {
    const now = this.#clock.now();
    for (const [units, { promise }] of this.#commits) {
      for (const unit of units) rejectExpiredOf(unit, promise, now);
    }
    this.#rejectQueued();
  }

  #rejectQueued(): void {
    for (const owner of this.#queuedMailboxes()) this.rejectExpired(owner, noAnswer());
  }
}

/** Whether the event came from the device itself. Messages of a device must commit in order of arrival. */
const isFromDevice = (envelope: Envelope): boolean =>
  envelope.event.by?.kind === 'device' && envelope.outboxKey === null && !envelope.sentWithinBatch;

/**
 * Splits envelopes, in order, into waiting and expired ones. If a message of a device has expired, all its later
 * messages expire with it: the device resends the first one, which must not commit after the others. Answered envelopes
 * are dropped.
 */
function splitExpired(envelopes: readonly Envelope[], now: EpochMs): { waiting: Envelope[]; expired: Envelope[] } {
  const waiting: Envelope[] = [];
  const expired: Envelope[] = [];
  let afterExpired = false;
  for (const envelope of envelopes) {
    const isExpired = envelope.answered || now >= envelope.deadline;
    if (!envelope.answered) (isExpired || (afterExpired && isFromDevice(envelope)) ? expired : waiting).push(envelope);
    afterExpired ||= isExpired && isFromDevice(envelope);
  }
  return { waiting, expired };
}

/** Rejects the decided events of a unit; if one came from the device, all later messages of the device with it. */
export function rejectUnit({ actor, decisions }: DecidedEvents, reason: Error): void {
  for (const { envelope } of decisions) envelope.reject(reason);
  if (!decisions.some(({ envelope }) => isFromDevice(envelope))) return;
  for (const envelope of actor.mailbox) if (isFromDevice(envelope)) envelope.reject(reason);
  actor.mailbox = actor.mailbox.filter((envelope) => !isFromDevice(envelope));
}

function rejectExpiredOf({ actor, decisions }: DecidedEvents, ended: Promise<void>, now: EpochMs): void {
  const decided = new Set(decisions.map(({ envelope }) => envelope));
  const { waiting, expired } = splitExpired([...decided, ...actor.mailbox], now);
  for (const envelope of expired) {
    const reason = decided.has(envelope) ? new CommitUnknown('no answer from the store', { ended }) : noAnswer();
    envelope.reject(reason);
  }
  if (expired.length > 0) actor.mailbox = waiting.filter((envelope) => !decided.has(envelope));
}

const noAnswer = (): Error => new StoreUnavailable('no answer from the store');
