import { type BackoffLimits, backoffDelay } from '../../../src/domain/backoff.ts';
import { type Coverage, covers, coversSame, includes, union } from './coverage.ts';
import type { Stream, StreamParts, StreamState } from './stream.ts';

export interface StreamSubscriber {
  coverage: Coverage;
  onMessage(message: unknown): void;
  /** Called when updates begin to arrive, and after an interruption: earlier changes have to be fetched. */
  onOpen(): void;
}

export type StreamConnection = Pick<Stream, 'close' | 'flush' | 'retry'>;
/** Opens a connection; `query` is called for each attempt. */
type Open = (parts: Omit<StreamParts, 'path' | 'query'> & { coverage(): Coverage }) => StreamConnection;

/** A connection, and what it receives since its last attempt. */
interface Connection {
  stream: StreamConnection;
  coverage: Coverage;
  state: StreamState;
  /** Messages of a replacement until the connection before it is flushed; null otherwise. */
  held: { message: unknown; text: string }[] | null;
}

/** Subscribers of one page are added one after the other within this time. */
const CONNECT_MS = 30;
/** Needs that several answers add within this time cause one replacement. */
const GROW_MS = 300;
/** A page that opens soon may need what the one before it needed. */
const SHRINK_MS = 10_000;
const LINGER_MS = 1_000;
/** A connection that does not answer a ping for so long does not delay its replacement. */
const FLUSH_MS = 3_000;
const MAX_HELD = 1_000;
/** The role or the scopes of the credential may be extended while the page is open. */
const REFUSED: BackoffLimits = { firstMs: 5_000, maxMs: 300_000 };

/**
 * One connection to `/ws/state` for all subscribers: its query is the union of what they need. For other needs it is replaced
 * by a second connection, and closed when that one is live, so that no update is missed or delivered twice. A replacement
 * that is refused is tried again with a growing delay.
 */
export class SharedStream {
  readonly #open: Open;
  readonly #onStateChange: (state: StreamState | null) => void;
  readonly #subscribers = new Map<StreamSubscriber, { isOpen: boolean }>();
  #active: Connection | null = null;
  #next: Connection | null = null;
  /** Texts that the active connection delivered since its replacement began to connect: that may receive them too. */
  readonly #delivered = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #flushTimer: ReturnType<typeof setTimeout> | undefined;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  /** Refusals of replacements in a row, and the last of them until a replacement succeeds or is no longer needed. */
  #refusals = 0;
  #refused: StreamState | null = null;

  constructor(open: Open, onStateChange: (state: StreamState | null) => void) {
    this.#open = open;
    this.#onStateChange = onStateChange;
  }

  /** Returns the function that ends the subscription. */
  subscribe(subscriber: StreamSubscriber): () => void {
    this.#subscribers.set(subscriber, { isOpen: false });
    queueMicrotask(() => this.#active?.state.status === 'live' && this.#notifyOpen(this.#active));
    this.#adjustIn(GROW_MS);
    return () => {
      this.#subscribers.delete(subscriber);
      if (this.#subscribers.size > 0) this.#adjustIn(SHRINK_MS);
      // It makes no other attempt, also not for the next subscriber.
      else if (this.#active?.state.status === 'refused') this.reset();
      else this.#adjustIn(LINGER_MS);
    };
  }

  retry(): void {
    for (const one of [this.#active, this.#next]) one?.stream.retry();
  }

  /** Closes the connections at once, such as those of a session that is over. A later subscriber opens another one. */
  reset(): void {
    clearTimeout(this.#timer);
    this.#closeAll();
    this.#expectFetch();
    this.#onStateChange(null);
  }

  sizes(): { subscribers: number; held: number; delivered: number } {
    return {
      subscribers: this.#subscribers.size,
      held: this.#next?.held?.length ?? 0,
      delivered: this.#delivered.size,
    };
  }

  #adjustIn(ms: number): void {
    clearTimeout(this.#timer);
    // A new subscriber must not wait because another one has gone.
    const isUncovered = [...this.#subscribers.values()].some(({ isOpen }) => !isOpen);
    const soon = this.#active === null ? CONNECT_MS : GROW_MS;
    this.#timer = setTimeout(() => this.#adjust(), isUncovered ? Math.min(ms, soon) : ms);
  }

  #wanted = (): Coverage => union([...this.#subscribers.keys()].map(({ coverage }) => coverage));

  #adjust(): void {
    if (this.#subscribers.size === 0) {
      this.#closeAll();
      this.#onStateChange(null);
    } else if (this.#active === null) this.#active = this.#connect();
    else if (this.#active.state.status === 'live') this.#adjustLive(this.#active);
    // Otherwise the next attempt has the query of its time.
  }

  #adjustLive(active: Connection): void {
    this.#notifyOpen(active);
    if (coversSame(active.coverage, this.#wanted())) {
      if (this.#refused !== null) this.#forgetRefusals();
      return;
    }
    // A replacement that is under way is followed by another one, if it is still needed.
    if (this.#next === null) this.#next = this.#connect();
  }

  #retryRefused(): void {
    this.#drop(this.#next);
    if (this.#active?.state.status === 'live') this.#adjustLive(this.#active);
  }

  #forgetRefusals(): void {
    if (this.#next?.state.status === 'refused') this.#drop(this.#next);
    this.#refusals = 0;
    this.#refused = null;
    this.#report();
  }

  #connect(): Connection {
    const connection: Connection = {
      stream: undefined as unknown as StreamConnection,
      coverage: this.#wanted(),
      state: { status: 'connecting' },
      held: null,
    };
    connection.stream = this.#open({
      coverage: () => {
        // A query without kinds is invalid: the last subscriber may have gone just now.
        if (this.#subscribers.size > 0) connection.coverage = this.#wanted();
        return connection.coverage;
      },
      onMessage: (message, text) => this.#receive(connection, message, text),
      onOpen: () => this.#onLive(connection),
      onStateChange: (state) => this.#onState(connection, state),
    });
    return connection;
  }

  #receive(from: Connection, message: unknown, text: string): void {
    if (from === this.#active) {
      if (this.#next !== null) this.#remember(text);
      this.#deliver(message);
    } else if (from.held !== null) {
      from.held.push({ message, text });
      if (from.held.length > MAX_HELD) this.#replace(from, false);
    }
  }

  #remember(text: string): void {
    this.#delivered.add(text);
    const [oldest] = this.#delivered;
    if (this.#delivered.size > MAX_HELD) this.#delivered.delete(oldest as string);
  }

  #deliver(message: unknown): void {
    for (const subscriber of [...this.#subscribers.keys()])
      if (includes(subscriber.coverage, message)) subscriber.onMessage(message);
  }

  #onLive(connection: Connection): void {
    if (connection === this.#active) {
      this.#notifyOpen(connection);
      // Subscribers may have come since the query was written.
      this.#adjustIn(GROW_MS);
      return;
    }
    const active = this.#active;
    if (connection !== this.#next || active === null) return;
    const held: Connection['held'] = [];
    connection.held = held;
    const replace = (isFlushed: boolean) => connection.held === held && this.#replace(connection, isFlushed);
    this.#flushTimer = setTimeout(() => replace(false), FLUSH_MS);
    active.stream.flush(replace);
  }

  /** The replacement becomes the connection. If the one before is not flushed, its last updates may be missing. */
  #replace(next: Connection, isFlushed: boolean): void {
    if (this.#next !== next || next.held === null) return;
    clearTimeout(this.#flushTimer);
    if (!isFlushed) this.#expectFetch();
    const { held } = next;
    const known = new Set(this.#delivered);
    this.#delivered.clear();
    next.held = null;
    this.#next = null;
    this.#drop(this.#active);
    this.#active = next;
    for (const { message, text } of held) if (!known.has(text)) this.#deliver(message);
    this.#forgetRefusals();
    this.#notifyOpen(next);
    this.#adjustIn(GROW_MS);
  }

  #notifyOpen({ coverage }: Connection): void {
    for (const [subscriber, entry] of [...this.#subscribers]) {
      if (entry.isOpen || !covers(coverage, subscriber.coverage)) continue;
      entry.isOpen = true;
      subscriber.onOpen();
    }
  }

  #onState(connection: Connection, state: StreamState): void {
    connection.state = state;
    const isOver = state.status === 'lost' || state.status === 'refused';
    if (connection === this.#active && isOver) {
      this.#expectFetch();
      this.#drop(this.#next);
    }
    // Its next attempt receives nothing of now, and waits for another flush.
    if (connection === this.#next && isOver) {
      clearTimeout(this.#flushTimer);
      connection.held = null;
      this.#delivered.clear();
    }
    if (connection === this.#next && state.status === 'refused') {
      this.#refusals += 1;
      this.#refused = state;
      this.#retryTimer = setTimeout(() => this.#retryRefused(), backoffDelay(this.#refusals, REFUSED, 'half'));
    }
    this.#report();
  }

  /** All subscribers fetch as soon as the updates arrive again. */
  #expectFetch(): void {
    for (const entry of this.#subscribers.values()) entry.isOpen = false;
  }

  /** The state of the active connection; also that its replacement was refused or is delayed. */
  #report(): void {
    const [active, next] = [this.#active?.state, this.#next?.state];
    const isLive = active?.status === 'live';
    const shown = isLive ? (next?.status === 'lost' ? next : (this.#refused ?? active)) : active;
    if (shown !== undefined) this.#onStateChange(shown);
  }

  #drop(connection: Connection | null): void {
    connection?.stream.close();
    if (connection === null || connection !== this.#next) return;
    clearTimeout(this.#flushTimer);
    clearTimeout(this.#retryTimer);
    this.#delivered.clear();
    this.#next = null;
  }

  #closeAll(): void {
    this.#refusals = 0;
    this.#refused = null;
    this.#drop(this.#next);
    this.#drop(this.#active);
    this.#active = null;
  }
}
