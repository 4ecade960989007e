import type { Log } from '../domain/log.ts';
import type { EpochMs } from '../domain/values.ts';
import type { MachineEvent } from '../machines/definition.ts';
import { type OutboxKey, StoreUnavailable } from '../store/contract.ts';
import { Overloaded, type Reply, type ReplyHandler, type SendOptions } from './contract.ts';
import type { RuntimeLimits } from './runtime-limits.ts';

/** Options of the runtime's own senders. Events that are durable elsewhere bypass limits and timeouts. */
export interface InternalSendOptions {
  options?: SendOptions | undefined;
  /** The outbox row that the event was sent from; deleted with the transition. */
  outboxKey?: OutboxKey;
  /** Id of the timer that fired. */
  firedTimer?: string;
  /** True if the timer was set again after it had fired. */
  superseded?: () => boolean;
  /** Durable elsewhere: waits as long as the store is unavailable. */
  noTimeout?: boolean;
}

const bypassesLimits = (internal: InternalSendOptions): boolean =>
  internal.noTimeout === true || internal.outboxKey !== undefined || internal.firedTimer !== undefined;

/** Envelope: an event, its reply handler and its deadline. */
export class Envelope {
  readonly event: MachineEvent;
  readonly options: SendOptions | undefined;
  /** The outbox row that the event was sent from; deleted with the transition. */
  readonly outboxKey: OutboxKey | null;
  /** Id of the timer that fired; deleted with the transition. */
  readonly firedTimer: string | null;
  readonly superseded: (() => boolean) | null;
  /** Time of `send`; an undecided envelope is rejected `timeoutMs` later. */
  readonly sentAt: EpochMs;
  readonly timeoutMs: number;
  attempts = 0;
  /** Set by the first `resolve` or `reject`; later calls are ignored. */
  answered = false;
  private readonly admission: Admission | null;
  private readonly replyTo: ReplyHandler | null;

  /** Without `admission` and `replyTo` the envelope has no reply: a message sent within a batch. */
  constructor(
    event: MachineEvent,
    internal: InternalSendOptions,
    sentAt: EpochMs,
    timeoutMs: number,
    admission?: Admission,
    replyTo?: ReplyHandler,
  ) {
    this.event = event;
    this.options = internal.options;
    this.outboxKey = internal.outboxKey ?? null;
    this.firedTimer = internal.firedTimer ?? null;
    this.superseded = internal.superseded ?? null;
    this.sentAt = sentAt;
    this.timeoutMs = timeoutMs;
    this.admission = admission ?? null;
    this.replyTo = replyTo ?? null;
  }

  /** Sent by another actor of the same batch: dropped if the batch fails, because the sender decides again. */
  get sentWithinBatch(): boolean {
    return this.replyTo === null;
  }

  resolve(reply: Reply): void {
    if (this.markAnswered()) this.replyTo?.resolve(reply);
  }

  reject(reason: Error): void {
    if (this.markAnswered()) this.replyTo?.reject(reason);
  }

  private markAnswered(): boolean {
    if (this.answered || this.admission === null) return false;
    this.answered = true;
    this.admission.pending -= 1;
    return true;
  }
}

/** Admission policy: bounds the number of pending events, and creates their envelopes. */
export class Admission {
  /** Number of events sent and not answered. */
  pending = 0;
  /** True once the runtime accepts no more events from outside. */
  closed = false;
  private readonly limits: RuntimeLimits;
  private readonly log: Log;
  private repliesDue: DeferredReply[] = [];

  constructor(limits: RuntimeLimits, log: Log) {
    this.limits = limits;
    this.log = log;
  }

  /** Reason to reject an event for a mailbox of this length, or null. Events durable elsewhere are accepted. */
  rejectionFor(mailboxLength: number, internal: InternalSendOptions): Error | null {
    if (bypassesLimits(internal)) return null;
    if (mailboxLength >= this.limits.mailboxEvents) return new Overloaded('the mailbox of the actor is full');
    if (this.closed) return new StoreUnavailable('the service is stopping');
    return this.pending >= this.limits.pendingEvents ? new Overloaded('too many pending events') : null;
  }

  createEnvelope(event: MachineEvent, internal: InternalSendOptions, sentAt: EpochMs, replyTo: ReplyHandler): Envelope {
    this.pending += 1;
    return new Envelope(event, internal, sentAt, this.timeoutFor(event, internal), this, replyTo);
  }

  /** Wraps a callback so that it runs like a promise reaction: in reply order, in a microtask. */
  deferReply(replyTo: ReplyHandler): ReplyHandler {
    return new DeferredReply(this, replyTo);
  }

  /** Called by `DeferredReply`. */
  queueReply(reply: DeferredReply): void {
    if (this.repliesDue.push(reply) === 1) queueMicrotask(this.flushReplies);
  }

  private readonly flushReplies = (): void => {
    const { repliesDue } = this;
    this.repliesDue = [];
    for (const reply of repliesDue) {
      try {
        reply.deliver();
      } catch (error) {
        this.log.error({ err: error }, 'reply handler threw');
      }
    }
  };

  private timeoutFor(event: MachineEvent, internal: InternalSendOptions): number {
    if (bypassesLimits(internal)) return Number.POSITIVE_INFINITY;
    return event.by?.kind === 'device' ? this.limits.deviceTimeoutMs : this.limits.callerTimeoutMs;
  }
}

/** A reply handler and the reply to deliver to it. */
class DeferredReply implements ReplyHandler {
  private readonly admission: Admission;
  private readonly replyTo: ReplyHandler;
  private reply: Reply | null = null;
  private reason: Error | null = null;

  constructor(admission: Admission, replyTo: ReplyHandler) {
    this.admission = admission;
    this.replyTo = replyTo;
  }

  resolve(reply: Reply): void {
    this.reply = reply;
    this.admission.queueReply(this);
  }

  reject(reason: Error): void {
    this.reason = reason;
    this.admission.queueReply(this);
  }

  deliver(): void {
    if (this.reply !== null) this.replyTo.resolve(this.reply);
    else if (this.reason !== null) this.replyTo.reject(this.reason);
  }
}
