import { type EpochMs, type Principal, SYSTEM } from '../domain/values.ts';
import type { MachineEvent } from '../machines/definition.ts';
import type { ActorMessage } from '../machines/outputs.ts';
import type { OutboxKey } from '../store/contract.ts';
import type { Reply, ReplyHandler, SendOptions } from './contract.ts';

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

/** Called by an envelope once it has its reply; implemented by `Admission`. */
export interface ReplyDelivery {
  deliver(envelope: Envelope, defersReply: boolean): void;
}

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
  readonly #delivery: ReplyDelivery | null;
  readonly #replyTo: ReplyHandler | null;
  #reply: Reply | Error | null = null;

  /** Without `delivery` and `replyTo` the envelope has no reply: a message sent within a batch. */
  constructor(
    event: MachineEvent,
    internal: InternalSendOptions,
    deadline: EpochMs,
    delivery?: ReplyDelivery,
    replyTo?: ReplyHandler,
  ) {
    this.event = event;
    this.options = internal.options;
    this.outboxKey = internal.outboxKey ?? null;
    this.firedTimer = internal.firedTimer ?? null;
    this.superseded = internal.superseded ?? null;
    this.deadline = deadline;
    this.#defersReply = internal.deferReply === true;
    this.#delivery = delivery ?? null;
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
    if (this.answered || this.#delivery === null) return;
    this.answered = true;
    this.#reply = reply;
    this.#delivery.deliver(this, this.#defersReply);
  }
}

/** Converts a message between actors to the event that the receiver decides. */
export const toMachineEvent = (event: ActorMessage, at: EpochMs): MachineEvent => ({
  ...event,
  at,
  by: originatorOf(event),
});

function originatorOf(event: ActorMessage): Principal {
  switch (event.type) {
    case 'ack.received':
    case 'state.observed':
      return { kind: 'device', id: event.deviceId };
    case 'device.revoked':
    case 'plan.withdrawn':
    case 'command.moved':
    case 'tenant.suspended':
    case 'tenant.resumed':
      return SYSTEM;
    default:
      // Written by another build.
      event satisfies never;
      return SYSTEM;
  }
}
