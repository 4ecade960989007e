import { type BackoffLimits, backoffDelay } from '../../../src/domain/backoff.ts';
import { markSessionUncertain, requestJson } from '../api/client.ts';
import { Problem } from '../api/problem.ts';
import { SERVICE_PATH } from '../base.ts';

export type StreamState =
  | { status: 'connecting' }
  | { status: 'live' }
  /** `retryAt`: time of the next attempt, in epoch milliseconds. */
  | { status: 'lost'; since: number; retryAt: number; reason: string }
  /** A retry cannot succeed. */
  | { status: 'refused'; reason: string };

const PING_MS = 15_000;
const PONG_TIMEOUT_MS = 10_000;
const RECONNECT: BackoffLimits = { firstMs: 500, maxMs: 15_000 };
/** Errors that a retry cannot resolve: an invalid query, an insufficient role (contract §6). */
const PERMANENT_CLOSE_CODES = new Set([4400, 4403]);
/** The credential or the ticket has expired. */
const UNAUTHENTICATED = 4401;

export type StreamQuery = Readonly<Record<string, string | readonly string[]>>;

export interface StreamParts {
  path: '/ws/state' | '/ws/actors';
  /** The query of the next connection. A parameter with several values is repeated. */
  query(): StreamQuery;
  /** `text` is the message as it was received. */
  onMessage(message: unknown, text: string): void;
  /** Called when the stream is live; earlier changes have to be fetched. */
  onOpen(): void;
  onStateChange(state: StreamState): void;
}

/** A WebSocket with automatic reconnection. It is opened with a one-time ticket, so that no credential is in a URL. */
export class Stream {
  readonly #parts: StreamParts;
  #socket: WebSocket | null = null;
  #isClosed = false;
  #isConnecting = false;
  #failures = 0;
  #since = Date.now();
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  #pingTimer: ReturnType<typeof setInterval> | undefined;
  #lastMessageAt = 0;
  /** Pings of the socket without an answer, oldest first: what is called when it arrives. */
  #pings: ((isAnswered: boolean) => void)[] = [];

  /** Connects immediately. */
  constructor(parts: StreamParts) {
    this.#parts = parts;
    addEventListener('online', this.retry);
    void this.#connect();
  }

  /** Reconnects now instead of at the next attempt. */
  readonly retry = (): void => {
    if (!this.#isClosed && this.#failures > 0) void this.#connect();
  };

  /** Calls `onFlushed` when everything sent until now has arrived, or with `false` when the connection ends before. */
  flush(onFlushed: (isComplete: boolean) => void): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#ping(this.#socket, onFlushed);
    else onFlushed(false);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#retryTimer);
    clearInterval(this.#pingTimer);
    removeEventListener('online', this.retry);
    this.#socket?.close();
  }

  async #connect(): Promise<void> {
    if (this.#isConnecting) return;
    this.#isConnecting = true;
    clearTimeout(this.#retryTimer);
    const { path, query, onStateChange } = this.#parts;
    if (this.#failures === 0) onStateChange({ status: 'connecting' });
    try {
      const { ticket } = await requestJson<{ ticket: string }>('POST', '/ws/ticket', { body: {} });
      if (!this.#isClosed) this.#attach(new WebSocket(address(path, { ...query(), token: ticket })));
    } catch (thrown) {
      const problem = thrown instanceof Problem ? thrown : null;
      const isPermanent = problem !== null && [401, 403].includes(problem.status);
      if (!this.#isClosed) this.#handleLoss(problem?.message ?? 'The service does not respond.', isPermanent);
    }
  }

  #attach(socket: WebSocket): void {
    this.#socket = socket;
    this.#pings = [];
    let ended = false;
    let isLive = false;
    const end = (reason: string, isPermanent = false): void => {
      if (ended || this.#isClosed) return;
      ended = true;
      clearInterval(this.#pingTimer);
      socket.close();
      for (const onAnswer of this.#pings.splice(0)) onAnswer(false);
      this.#handleLoss(reason, isPermanent);
    };
    socket.onopen = () => this.#startPings(socket, end);
    socket.onmessage = ({ data }) => {
      this.#lastMessageAt = Date.now();
      // The first message shows that the ticket was accepted.
      if (!isLive) {
        isLive = true;
        this.#goLive();
      }
      if (data === 'pong') this.#pings.shift()?.(true);
      else this.#parts.onMessage(JSON.parse(`${data}`), `${data}`);
    };
    socket.onclose = ({ code, reason }) => {
      if (code === UNAUTHENTICATED) markSessionUncertain();
      end(reason || 'The connection was lost.', PERMANENT_CLOSE_CODES.has(code));
    };
    socket.onerror = () => end('The service does not respond.');
  }

  #startPings(socket: WebSocket, end: (reason: string) => void): void {
    this.#lastMessageAt = Date.now();
    this.#ping(socket);
    this.#pingTimer = setInterval(() => {
      if (Date.now() - this.#lastMessageAt > PING_MS + PONG_TIMEOUT_MS) end('The service stopped responding.');
      else this.#ping(socket);
    }, PING_MS);
  }

  #ping(socket: WebSocket, onAnswer: (isAnswered: boolean) => void = () => {}): void {
    socket.send('ping');
    this.#pings.push(onAnswer);
  }

  #goLive(): void {
    this.#failures = 0;
    this.#parts.onStateChange({ status: 'live' });
    this.#parts.onOpen();
  }

  #handleLoss(reason: string, isPermanent: boolean): void {
    const { onStateChange } = this.#parts;
    this.#isConnecting = false;
    // A callback of a flush may have closed it.
    if (this.#isClosed) return;
    if (isPermanent) {
      onStateChange({ status: 'refused', reason });
      return;
    }
    if (this.#failures === 0) this.#since = Date.now();
    this.#failures += 1;
    const pause = backoffDelay(this.#failures, RECONNECT, 'half');
    onStateChange({ status: 'lost', since: this.#since, retryAt: Date.now() + pause, reason });
    this.#retryTimer = setTimeout(() => void this.#connect(), pause);
  }
}

function address(path: string, query: StreamQuery): URL {
  const url = new URL(SERVICE_PATH + path, location.href);
  url.protocol = url.protocol.replace('http', 'ws');
  const values = Object.entries(query).flatMap(([name, value]) => [value].flat().map((one) => [name, one as string]));
  url.search = `${new URLSearchParams(values)}`;
  return url;
}
