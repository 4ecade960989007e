import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../domain/values.ts';
import type { WaitingMessage } from './store.ts';

/** Called once: true when the service has acknowledged the message, false when it was dropped. */
type SettleReport = (acknowledged: boolean) => void;

export interface OutboxEntry extends WaitingMessage {
  /** Written to the current connection. */
  sent: boolean;
  settle: SettleReport[];
}

/** QoS 1 messages in flight; must stay well below the service's replay window of 64. */
const MAX_IN_FLIGHT = 16;

/**
 * Outbound queue: messages that the service has not acknowledged, in order, at most `limit`. A message gets its
 * sequence number when it is first sent, and is resent with the same number and id.
 */
export class DeviceOutbox {
  readonly #limit: number;
  readonly #fullState: () => JsonObject;
  readonly #dropped: (message: WaitingMessage) => void;
  #entries: OutboxEntry[];
  #nextSequence: number;
  #closed = false;

  /** `fullState` replaces the state patches that do not fit; `dropped` is called for each dropped message. */
  constructor(options: {
    limit: number;
    nextSequence: number;
    waiting: readonly WaitingMessage[];
    fullState: () => JsonObject;
    dropped: (message: WaitingMessage) => void;
  }) {
    this.#limit = Math.max(options.limit, MAX_IN_FLIGHT * 2);
    this.#nextSequence = options.nextSequence;
    this.#fullState = options.fullState;
    this.#dropped = options.dropped;
    this.#entries = options.waiting.map((message) => ({ ...message, sent: false, settle: [] }));
  }

  get size(): number {
    return this.#entries.length;
  }

  get nextSequence(): number {
    return this.#nextSequence;
  }

  /** Sequence number for a message that is not queued. */
  takeSequence(): number {
    return this.#nextSequence++;
  }

  /** Continues above the highest sequence number that the service has accepted. */
  advanceSequence(lastSequence: number): void {
    this.#nextSequence = Math.max(this.#nextSequence, lastSequence + 1);
  }

  add(type: WaitingMessage['type'], payload: JsonObject): Promise<boolean> {
    if (this.#entries.length >= this.#limit && type === 'state') return this.addFullState();
    if (this.#entries.length >= this.#limit) this.#dropOldest();
    return this.#enqueue(type, payload, []);
  }

  /** Queues a report of the full state, which supersedes the unsent state reports. */
  addFullState(): Promise<boolean> {
    const replaced = this.#entries.filter((entry) => entry.type === 'state' && entry.sequence === null);
    this.#entries = this.#entries.filter((entry) => !replaced.includes(entry));
    if (this.#entries.length >= this.#limit) this.#dropOldest();
    const callbacks = replaced.flatMap((entry) => entry.settle);
    return this.#enqueue('state', { state: this.#fullState(), full: true }, callbacks);
  }

  /**
   * Marks the messages that can be sent now as sent, numbers them, and returns them in order. The caller writes them.
   */
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

  /** After the connection closed: all messages are sent again in the next one. */
  resetSent(): void {
    for (const entry of this.#entries) entry.sent = false;
  }

  /** The queued messages, for `DeviceMemory`. */
  waiting(): WaitingMessage[] {
    return this.#entries.map(({ messageId, type, payload, sequence }) => ({ messageId, type, payload, sequence }));
  }

  /** Resolves all pending and future `add` calls with false. The messages remain queued. */
  rejectWaiters(): void {
    this.#closed = true;
    for (const entry of this.#entries) for (const settle of entry.settle.splice(0)) settle(false);
  }

  /** Drops the oldest unsent message. A message with a sequence number must be resent, so it is never dropped. */
  #dropOldest(): void {
    const oldest = this.#entries.find((entry) => entry.sequence === null);
    if (oldest === undefined) return;
    this.#entries = this.#entries.filter((entry) => entry !== oldest);
    for (const settle of oldest.settle) settle(false);
    this.#dropped({ messageId: oldest.messageId, type: oldest.type, payload: oldest.payload, sequence: null });
  }

  #enqueue(type: WaitingMessage['type'], payload: JsonObject, settle: SettleReport[]): Promise<boolean> {
    return new Promise((resolve) => {
      this.#entries.push({
        messageId: randomUUID(),
        type,
        payload,
        sequence: null,
        sent: false,
        settle: [...settle, resolve],
      });
      if (this.#closed) this.rejectWaiters();
    });
  }
}
