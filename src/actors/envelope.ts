import type { Log } from '../domain/log.ts';
import { type EpochMs, SYSTEM } from '../domain/values.ts';
import type { MachineEvent } from '../machines/definition.ts';
import type { ActorMessage } from '../machines/outputs.ts';
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
  /** Replies in the order of the commits, in one microtask for all of them, as promise reactions would. */
  deferReply?: boolean;
}

export const bypassesLimits = (internal: InternalSendOptions): boolean =>
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
  /** The sender waits until then for a store that does not answer (`deadlines.ts`). */
  readonly deadline: EpochMs;
  attempts = 0;
  /** Set by the first `resolve` or `reject`; later calls are ignored. */
  answered = false;
  readonly #defersReply: boolean;
  readonly #admission: Admission | null;
  readonly #replyTo: ReplyHandler | null;
  #reply: Reply | Error | null = null;

  /** Without `admission` and `replyTo` the envelope has no reply: a message sent within a batch. */
  constructor(
    event: MachineEvent,
    internal: InternalSendOptions,
    deadline: EpochMs,
    admission?: Admission,
    replyTo?: ReplyHandler,
  ) {
    this.event = event;
    this.options = internal.options;
    this.outboxKey = internal.outboxKey ?? null;
    this.firedTimer = internal.firedTimer ?? null;
    this.superseded = internal.superseded ?? null;
    this.deadline = deadline;
    this.#defersReply = internal.deferReply === true;
    this.#admission = admission ?? null;
    this.#replyTo = replyTo ?? null;
  }

  /** Sent by another actor of the same batch: dropped if the batch fails, because the sender decides again. */
  get sentWithinBatch(): boolean {
    return this.#replyTo === null;
  }

  resolve(reply: Reply): void {
    this.#answer(reply);
  }

  reject(reason: Error): void {
    this.#answer(reason);
  }

  /** Passes the reply to its handler. */
  deliverReply(): void {
    if (this.#reply instanceof Error) this.#replyTo?.reject(this.#reply);
    else if (this.#reply !== null) this.#replyTo?.resolve(this.#reply);
  }

  #answer(reply: Reply | Error): void {
    if (this.answered || this.#admission === null) return;
    this.answered = true;
    this.#reply = reply;
    this.#admission.deliver(this, this.#defersReply);
  }
}

/** Admission policy: bounds the number of pending events. */
export class Admission {
  /** Number of events sent and not answered. */
  pending = 0;
  /** True once the runtime accepts no more events from outside. */
  closed = false;
  readonly #limits: RuntimeLimits;
  readonly #log: Log;
  #deferred: Envelope[] = [];

  constructor(limits: RuntimeLimits, log: Log) {
    this.#limits = limits;
    this.#log = log;
  }

  /** Reason to reject an event for a mailbox of this length, or null. Events durable elsewhere are accepted. */
  rejectionFor(mailboxLength: number, internal: InternalSendOptions): Error | null {
    if (bypassesLimits(internal)) return null;
    if (mailboxLength >= this.#limits.mailboxEvents) return new Overloaded('the mailbox of the actor is full');
    if (this.closed) return new StoreUnavailable('the service is stopping');
    return this.pending >= this.#limits.pendingEvents ? new Overloaded('too many pending events') : null;
  }

  admit(event: MachineEvent, internal: InternalSendOptions, deadline: EpochMs, replyTo: ReplyHandler): Envelope {
    this.pending += 1;
    return new Envelope(event, internal, deadline, this, replyTo);
  }

  /** Called by an envelope once it has its reply: no longer pending, and passed to its handler now or in a microtask. */
  deliver(envelope: Envelope, defersReply: boolean): void {
    this.pending -= 1;
    if (!defersReply) envelope.deliverReply();
    else if (this.#deferred.push(envelope) === 1) queueMicrotask(this.#deliverDeferred);
  }

  readonly #deliverDeferred = (): void => {
    const deferred = this.#deferred;
    this.#deferred = [];
    for (const envelope of deferred) {
      try {
        envelope.deliverReply();
      } catch (error) {
        this.#log.error({ err: error }, 'reply handler threw');
      }
    }
  };
}

/** Converts a message between actors to the event that the receiver decides. */
export const toMachineEvent = (event: ActorMessage, at: EpochMs): MachineEvent => ({
  ...event,
  at,
  by:
    event.type === 'ack.received' || event.type === 'state.observed' ? { kind: 'device', id: event.deviceId } : SYSTEM,
});
