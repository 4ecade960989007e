import type { Log } from '../domain/log.ts';
import type { EpochMs } from '../domain/values.ts';
import type { MachineEvent } from '../machines/definition.ts';
import { StoreUnavailable } from '../store/contract.ts';
import { Overloaded, type ReplyHandler } from './contract.ts';
import { Envelope, type InternalSendOptions, type ReplyDelivery } from './envelope.ts';
import type { RuntimeLimits } from './runtime-limits.ts';

/** Whether an event is durable elsewhere, so that it is neither refused nor expires. */
export const bypassesLimits = (internal: InternalSendOptions): boolean =>
  internal.noTimeout === true || internal.outboxKey !== undefined || internal.firedTimer !== undefined;

/** Admission policy: bounds the number of pending events. */
export class Admission implements ReplyDelivery {
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

  /** The event is not pending any longer; its reply is passed to its handler now or in a microtask. */
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
