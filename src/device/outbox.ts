import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../domain/values.ts';
import type { WaitingMessage } from './store.ts';

/** Told once: true when the service has acknowledged the message, false when it was given up. */
type SettleReport = (acknowledged: boolean) => void;

export interface OutboxEntry extends WaitingMessage {
  /** Written in the present connection. */
  sent: boolean;
  settle: SettleReport[];
}

/** Messages of QoS 1 in the air at a time; well below the service's replay window of 64. */
const MAX_IN_FLIGHT = 16;

/**
 * What waits for the service's acknowledgement, in order, at most `limit` messages. A message gets its sequence number
 * when it is first sent and keeps number and id in every repeat.
 */
export class Outbox {
  readonly #limit: number;
  readonly #wholeState: () => JsonObject;
  readonly #dropped: (message: WaitingMessage) => void;
  #entries: OutboxEntry[];
  #nextSequence: number;
  #abandoned = false;

  /** `wholeState` stands in for the state patches that do not fit; `dropped` hears of what is given up. */
  constructor(options: {
    limit: number;
    nextSequence: number;
    waiting: readonly WaitingMessage[];
    wholeState: () => JsonObject;
    dropped: (message: WaitingMessage) => void;
  }) {
    this.#limit = Math.max(options.limit, MAX_IN_FLIGHT * 2);
    this.#nextSequence = options.nextSequence;
    this.#wholeState = options.wholeState;
    this.#dropped = options.dropped;
    this.#entries = options.waiting.map((message) => ({ ...message, sent: false, settle: [] }));
  }

  get size(): number {
    return this.#entries.length;
  }

  get nextSequence(): number {
    return this.#nextSequence;
  }

  /** A number for a message that is not repeated. */
  takeSequence(): number {
    return this.#nextSequence++;
  }

  /** The service's highest accepted number: what comes next is above it. */
  advanceSequence(lastSequence: number): void {
    this.#nextSequence = Math.max(this.#nextSequence, lastSequence + 1);
  }

  add(type: WaitingMessage['type'], payload: JsonObject): Promise<boolean> {
    if (this.#entries.length >= this.#limit && type === 'state') return this.addFullState();
    if (this.#entries.length >= this.#limit) this.#makeRoom();
    return this.#push(type, payload, []);
  }

  /** Reports the whole state: what waits unsent of earlier reports is contained in it. */
  addFullState(): Promise<boolean> {
    const contained = this.#entries.filter((entry) => entry.type === 'state' && entry.sequence === null);
    this.#entries = this.#entries.filter((entry) => !contained.includes(entry));
    if (this.#entries.length >= this.#limit) this.#makeRoom();
    const heirs = contained.flatMap((entry) => entry.settle);
    return this.#push('state', { state: this.#wholeState(), full: true }, heirs);
  }

  /** Takes what may be written now, in order, each with its number. The caller writes all of it. */
  takeSendable(): OutboxEntry[] {
    const ready = this.#entries.slice(0, MAX_IN_FLIGHT).filter((entry) => !entry.sent);
    for (const entry of ready) {
      entry.sent = true;
      entry.sequence ??= this.takeSequence();
    }
    return ready;
  }

  acknowledge(entry: OutboxEntry): void {
    const at = this.#entries.indexOf(entry);
    if (at === -1) return;
    this.#entries.splice(at, 1);
    for (const settle of entry.settle) settle(true);
  }

  /** The connection ended: everything goes out again in the next one. */
  resetSent(): void {
    for (const entry of this.#entries) entry.sent = false;
  }

  /** What would be sent in the next run of the process. */
  waiting(): WaitingMessage[] {
    return this.#entries.map(({ messageId, type, payload, sequence }) => ({ messageId, type, payload, sequence }));
  }

  /** Answers all who wait, and all who come later, with false; the messages stay for `waiting`. */
  rejectWaiters(): void {
    this.#abandoned = true;
    for (const entry of this.#entries) for (const settle of entry.settle.splice(0)) settle(false);
  }

  /** Gives up the oldest message that was never sent: a number in use must be sent again. */
  #makeRoom(): void {
    const given = this.#entries.find((entry) => entry.sequence === null);
    if (given === undefined) return;
    this.#entries = this.#entries.filter((entry) => entry !== given);
    for (const settle of given.settle) settle(false);
    this.#dropped({ messageId: given.messageId, type: given.type, payload: given.payload, sequence: null });
  }

  #push(type: WaitingMessage['type'], payload: JsonObject, settle: SettleReport[]): Promise<boolean> {
    return new Promise((resolve) => {
      this.#entries.push({
        messageId: randomUUID(),
        type,
        payload,
        sequence: null,
        sent: false,
        settle: [...settle, resolve],
      });
      if (this.#abandoned) this.rejectWaiters();
    });
  }
}
