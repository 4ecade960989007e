import type { RawData, WebSocket } from 'ws';
import { parseJson } from '../../domain/json/strict.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Caller } from '../../operations/operation.ts';
import { type CloseCode, closeFrameOf } from '../shared/live/close-codes.ts';
import type { GuardedConnection } from '../shared/live/connection-guard.ts';
import { NO_SUBSCRIPTION, type Subscription } from '../shared/live/subscription.ts';
import { type UpdateKindName, updateKinds } from '../shared/live/update-kinds.ts';
import type { PendingSignIn } from '../shared/unauthenticated-connections.ts';
import type { SocketLimits } from './socket-limits.ts';

/** What is known of a client from its handshake. */
export interface ConnectionOrigin {
  requestId: Uuid;
  address: string;
  /** The `User-Agent` header. */
  userAgent: string | undefined;
  pending: PendingSignIn;
}

/** A running subscription of one connection. */
interface ActiveSubscription {
  kind: UpdateKindName;
  unsubscribe(): void;
}

type ConnectionLimits = Pick<SocketLimits, 'maxMessages' | 'maxOperations' | 'maxPendingSends'>;

/** Time that a peer has to answer a close frame. */
const CLOSE_MS = 2_000;
/** Pings without an answer after which the connection is terminated. */
const MAX_MISSED_PINGS = 2;

/** One client's WebSocket: its caller, its running subscriptions, and the limits of what it sends and leaves unread. */
export class GraphqlConnection implements GuardedConnection {
  readonly ws: WebSocket;
  readonly origin: ConnectionOrigin;
  /** Null until authenticated. */
  caller: Caller | null = null;
  readonly #limits: ConnectionLimits;
  readonly #active = new Set<ActiveSubscription>();
  #subscription: Subscription = NO_SUBSCRIPTION;
  /** Received since `startInterval`. */
  #messages = 0;
  /** Responses that are not written yet. */
  #pendingSends = 0;
  #missedPings = 0;

  constructor(ws: WebSocket, origin: ConnectionOrigin, limits: ConnectionLimits) {
    this.ws = ws;
    this.origin = origin;
    this.#limits = limits;
    // The library answers a client's protocol error with a close frame.
    ws.on('error', () => {});
    ws.on('pong', () => {
      this.#missedPings = 0;
    });
  }

  /** Has the kinds of the running subscriptions, so that access checks cover their roles and scopes. */
  get subscription(): Subscription {
    return this.#subscription;
  }

  /** Whether as many subscriptions run as a connection may have. */
  get isFull(): boolean {
    return this.#active.size >= this.#limits.maxOperations;
  }

  /** Tracks a running subscription; returns the function that ends it. */
  addSubscription(kind: UpdateKindName, unsubscribe: () => void): () => void {
    const subscription: ActiveSubscription = { kind, unsubscribe };
    this.#active.add(subscription);
    this.#updateKinds();
    return () => {
      if (!this.#active.delete(subscription)) return;
      unsubscribe();
      this.#updateKinds();
    };
  }

  /** Ends all subscriptions of a closed connection. */
  endSubscriptions(): void {
    for (const { unsubscribe } of this.#active) unsubscribe();
  }

  #updateKinds(): void {
    const kinds = new Map([...this.#active].map(({ kind }) => [kind, updateKinds[kind]]));
    this.#subscription = { ...NO_SUBSCRIPTION, kinds };
  }

  /** Resolves when the text is written, or the connection closed. */
  send(text: string): Promise<void> {
    const { ws } = this;
    return new Promise((resolve, reject) => {
      if (this.#pendingSends >= this.#limits.maxPendingSends) this.shut(1013, 'client reads too slowly; reconnect');
      if (ws.readyState !== ws.OPEN) return resolve();
      this.#pendingSends += 1;
      ws.send(text, (fault) => {
        this.#pendingSends -= 1;
        if (fault) reject(fault);
        else resolve();
      });
    });
  }

  /** The text of a message; null if it is not valid, which closes the connection. */
  receive(data: RawData, binary: boolean): string | null {
    this.#messages += 1;
    this.#missedPings = 0;
    this.origin.pending.received();
    const text = String(data);
    // JSON that parsers read differently is refused on every edge.
    if (!binary && parseJson(text).ok) return text;
    this.shut(4400, 'VALIDATION_FAILED: the message is not valid');
    return null;
  }

  /** Closes the connection if it has sent too many messages since the last call. */
  startInterval(): void {
    if (this.#messages > this.#limits.maxMessages) this.shut(1008, 'too many messages');
    this.#messages = 0;
  }

  ping(): void {
    this.#missedPings += 1;
    if (this.#missedPings > MAX_MISSED_PINGS) this.ws.terminate();
    else if (this.ws.readyState === this.ws.OPEN) this.ws.ping();
  }

  /** Closes with the code and the text of a refusal. */
  end(refusal: Refusal): void {
    const { code, reason } = closeFrameOf(refusal);
    this.shut(code, reason);
  }

  shut(code: CloseCode | number, reason: string): void {
    const { ws } = this;
    if (ws.readyState !== ws.OPEN) return;
    ws.close(code, Buffer.from(reason).subarray(0, 120).toString());
    setTimeout(() => ws.terminate(), CLOSE_MS).unref();
  }

  goAway(): void {
    this.shut(1001, 'the service is shutting down');
  }
}
