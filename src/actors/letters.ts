import type { Log } from '../domain/log.ts';
import type { EpochMs } from '../domain/values.ts';
import type { MachineEvent } from '../machines/definition.ts';
import { type OutboxKey, StoreUnavailable } from '../store/contract.ts';
import { Overloaded, type Reply, type SendOptions, type Waiter } from './contract.ts';
import type { Limits } from './limits.ts';

/** What the runtime's own senders add to an event; bounds and patience are for the others. */
export interface Extra {
  options?: SendOptions | undefined;
  /** The outbox row it answers. */
  delivers?: OutboxKey;
  /** The timer that fired. */
  timer?: string;
  /** True once the timer was set again after it had fired. */
  superseded?: () => boolean;
  /** Durable elsewhere: waits as long as the store is away. */
  patient?: boolean;
}

const internal = (extra: Extra): boolean =>
  extra.patient === true || extra.delivers !== undefined || extra.timer !== undefined;

/** An event on its way, with whoever waits for what becomes of it. */
export class Letter {
  readonly event: MachineEvent;
  readonly options: SendOptions | undefined;
  /** The outbox row it answers. */
  readonly delivers: OutboxKey | null;
  /** The timer that fired, removed with the transition. */
  readonly timer: string | null;
  readonly superseded: (() => boolean) | null;
  /** When it was put in; it is given back unread after `patienceMs`. */
  readonly sentAt: EpochMs;
  readonly patienceMs: number;
  attempts = 0;
  /** By one of the two below; what comes after the first is not heard. */
  answered = false;
  private readonly mail: Mail | null;
  private readonly waiter: Waiter | null;

  /** Without `mail` and `waiter` nobody waits for it. */
  constructor(event: MachineEvent, extra: Extra, at: EpochMs, patienceMs: number, mail?: Mail, waiter?: Waiter) {
    this.event = event;
    this.options = extra.options;
    this.delivers = extra.delivers ?? null;
    this.timer = extra.timer ?? null;
    this.superseded = extra.superseded ?? null;
    this.sentAt = at;
    this.patienceMs = patienceMs;
    this.mail = mail ?? null;
    this.waiter = waiter ?? null;
  }

  /** Said by another actor in this very turn: gone with it where it is not kept, and said again. */
  get companion(): boolean {
    return this.waiter === null;
  }

  resolve(reply: Reply): void {
    if (this.ends()) this.waiter?.resolve(reply);
  }

  reject(reason: Error): void {
    if (this.ends()) this.waiter?.reject(reason);
  }

  private ends(): boolean {
    if (this.answered || this.mail === null) return false;
    this.answered = true;
    this.mail.waiting -= 1;
    return true;
  }
}

/** Writes letters, and knows how many are under way. */
export class Mail {
  /** Sent and not answered. */
  waiting = 0;
  /** Nothing more is taken from outside. */
  closed = false;
  private readonly limits: Limits;
  private readonly log: Log;
  private heard: Hearing[] = [];

  constructor(limits: Limits, log: Log) {
    this.limits = limits;
    this.log = log;
  }

  /** Why one more may not come where so many wait, or null; what is durable elsewhere always may. */
  bars(waitingThere: number, extra: Extra): Error | null {
    if (internal(extra)) return null;
    if (waitingThere >= this.limits.mailbox) return new Overloaded('its mailbox is full');
    if (this.closed) return new StoreUnavailable('the service is stopping');
    return this.waiting >= this.limits.waiting ? new Overloaded('too many events wait') : null;
  }

  write(event: MachineEvent, extra: Extra, at: EpochMs, waiter: Waiter): Letter {
    this.waiting += 1;
    return new Letter(event, extra, at, this.patienceMs(event, extra), this, waiter);
  }

  /** Lets one wait who has no promise: told in the order of the answers, when what runs now is done, as by a promise. */
  hearing(waiter: Waiter): Waiter {
    return new Hearing(this, waiter);
  }

  /** For `Hearing`. */
  hears(one: Hearing): void {
    if (this.heard.push(one) === 1) queueMicrotask(this.tell);
  }

  private readonly tell = (): void => {
    const { heard } = this;
    this.heard = [];
    for (const one of heard) {
      try {
        one.tell();
      } catch (error) {
        this.log.error({ err: error }, 'an answer could not be taken');
      }
    }
  };

  private patienceMs(event: MachineEvent, extra: Extra): number {
    if (internal(extra)) return Number.POSITIVE_INFINITY;
    return event.by?.kind === 'device' ? this.limits.devicePatienceMs : this.limits.callerPatienceMs;
  }
}

/** A waiter, and what it is to be told. */
class Hearing implements Waiter {
  private readonly mail: Mail;
  private readonly waiter: Waiter;
  private reply: Reply | null = null;
  private reason: Error | null = null;

  constructor(mail: Mail, waiter: Waiter) {
    this.mail = mail;
    this.waiter = waiter;
  }

  resolve(reply: Reply): void {
    this.reply = reply;
    this.mail.hears(this);
  }

  reject(reason: Error): void {
    this.reason = reason;
    this.mail.hears(this);
  }

  tell(): void {
    if (this.reply !== null) this.waiter.resolve(this.reply);
    else if (this.reason !== null) this.waiter.reject(this.reason);
  }
}
