import type { Log } from '../domain/log.ts';
import type { EpochMs } from '../domain/values.ts';
import type { MachineEvent } from '../machines/definition.ts';
import { type OutboxKey, StoreUnavailable } from '../store/contract.ts';
import { Overloaded, type Reply, type ReplyHandler, type SendOptions } from './contract.ts';
import type { RuntimeLimits } from './runtime-limits.ts';

/** What the runtime's own senders add to an event; bounds and patience are for the others. */
export interface InternalSendOptions {
  options?: SendOptions | undefined;
  /** The outbox row it answers. */
  outboxKey?: OutboxKey;
  /** The timer that fired. */
  firedTimer?: string;
  /** True once the timer was set again after it had fired. */
  superseded?: () => boolean;
  /** Durable elsewhere: waits as long as the store is away. */
  noTimeout?: boolean;
}

const bypassesLimits = (internal: InternalSendOptions): boolean =>
  internal.noTimeout === true || internal.outboxKey !== undefined || internal.firedTimer !== undefined;

/** An event on its way, with whoever waits for what becomes of it. */
export class Envelope {
  readonly event: MachineEvent;
  readonly options: SendOptions | undefined;
  /** The outbox row it answers. */
  readonly outboxKey: OutboxKey | null;
  /** The timer that fired, removed with the transition. */
  readonly firedTimer: string | null;
  readonly superseded: (() => boolean) | null;
  /** When it was put in; it is given back unread after `patienceMs`. */
  readonly sentAt: EpochMs;
  readonly timeoutMs: number;
  attempts = 0;
  /** By one of the two below; what comes after the first is not heard. */
  answered = false;
  private readonly admission: Admission | null;
  private readonly replyTo: ReplyHandler | null;

  /** Without `mail` and `waiter` nobody waits for it. */
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

  /** Said by another actor in this very turn: gone with it where it is not kept, and said again. */
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

/** Writes letters, and knows how many are under way. */
export class Admission {
  /** Sent and not answered. */
  pending = 0;
  /** Nothing more is taken from outside. */
  closed = false;
  private readonly limits: RuntimeLimits;
  private readonly log: Log;
  private repliesDue: DeferredReply[] = [];

  constructor(limits: RuntimeLimits, log: Log) {
    this.limits = limits;
    this.log = log;
  }

  /** Why one more may not come where so many wait, or null; what is durable elsewhere always may. */
  rejectionFor(mailboxLength: number, internal: InternalSendOptions): Error | null {
    if (bypassesLimits(internal)) return null;
    if (mailboxLength >= this.limits.mailboxEvents) return new Overloaded('its mailbox is full');
    if (this.closed) return new StoreUnavailable('the service is stopping');
    return this.pending >= this.limits.pendingEvents ? new Overloaded('too many events wait') : null;
  }

  createEnvelope(event: MachineEvent, internal: InternalSendOptions, sentAt: EpochMs, replyTo: ReplyHandler): Envelope {
    this.pending += 1;
    return new Envelope(event, internal, sentAt, this.timeoutFor(event, internal), this, replyTo);
  }

  /** Lets one wait who has no promise: told in the order of the answers, when what runs now is done, as by a promise. */
  deferReply(replyTo: ReplyHandler): ReplyHandler {
    return new DeferredReply(this, replyTo);
  }

  /** For `Hearing`. */
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
        this.log.error({ err: error }, 'an answer could not be taken');
      }
    }
  };

  private timeoutFor(event: MachineEvent, internal: InternalSendOptions): number {
    if (bypassesLimits(internal)) return Number.POSITIVE_INFINITY;
    return event.by?.kind === 'device' ? this.limits.deviceTimeoutMs : this.limits.callerTimeoutMs;
  }
}

/** A waiter, and what it is to be told. */
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
