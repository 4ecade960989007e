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

const bypassesLimits = (extra: InternalSendOptions): boolean =>
  extra.noTimeout === true || extra.outboxKey !== undefined || extra.firedTimer !== undefined;

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
    extra: InternalSendOptions,
    at: EpochMs,
    patienceMs: number,
    mail?: Admission,
    waiter?: ReplyHandler,
  ) {
    this.event = event;
    this.options = extra.options;
    this.outboxKey = extra.outboxKey ?? null;
    this.firedTimer = extra.firedTimer ?? null;
    this.superseded = extra.superseded ?? null;
    this.sentAt = at;
    this.timeoutMs = patienceMs;
    this.admission = mail ?? null;
    this.replyTo = waiter ?? null;
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
  rejectionFor(waitingThere: number, extra: InternalSendOptions): Error | null {
    if (bypassesLimits(extra)) return null;
    if (waitingThere >= this.limits.mailboxEvents) return new Overloaded('its mailbox is full');
    if (this.closed) return new StoreUnavailable('the service is stopping');
    return this.pending >= this.limits.pendingEvents ? new Overloaded('too many events wait') : null;
  }

  createEnvelope(event: MachineEvent, extra: InternalSendOptions, at: EpochMs, waiter: ReplyHandler): Envelope {
    this.pending += 1;
    return new Envelope(event, extra, at, this.timeoutFor(event, extra), this, waiter);
  }

  /** Lets one wait who has no promise: told in the order of the answers, when what runs now is done, as by a promise. */
  deferReply(waiter: ReplyHandler): ReplyHandler {
    return new DeferredReply(this, waiter);
  }

  /** For `Hearing`. */
  queueReply(one: DeferredReply): void {
    if (this.repliesDue.push(one) === 1) queueMicrotask(this.flushReplies);
  }

  private readonly flushReplies = (): void => {
    const { repliesDue } = this;
    this.repliesDue = [];
    for (const one of repliesDue) {
      try {
        one.deliver();
      } catch (error) {
        this.log.error({ err: error }, 'an answer could not be taken');
      }
    }
  };

  private timeoutFor(event: MachineEvent, extra: InternalSendOptions): number {
    if (bypassesLimits(extra)) return Number.POSITIVE_INFINITY;
    return event.by?.kind === 'device' ? this.limits.deviceTimeoutMs : this.limits.callerTimeoutMs;
  }
}

/** A waiter, and what it is to be told. */
class DeferredReply implements ReplyHandler {
  private readonly admission: Admission;
  private readonly replyTo: ReplyHandler;
  private reply: Reply | null = null;
  private reason: Error | null = null;

  constructor(mail: Admission, waiter: ReplyHandler) {
    this.admission = mail;
    this.replyTo = waiter;
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
