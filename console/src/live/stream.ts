import { type BackoffLimits, backoffDelay } from '../../../src/domain/backoff.ts';
import { markSessionUncertain, requestJson } from '../api/client.ts';
import { Problem } from '../api/problem.ts';
import { SERVICE_PATH } from '../base.ts';

// A WebSocket with automatic reconnection. It is opened with a one-time ticket, so that no credential is in a URL.

export type StreamState =
  | { status: 'connecting' }
  | { status: 'live' }
  /** `retryAt`: time of the next attempt, in epoch milliseconds. */
  | { status: 'lost'; since: number; retryAt: number; reason: string }
  /** A retry cannot succeed. */
  | { status: 'refused'; reason: string };

export interface Stream {
  close(): void;
  /** Reconnects now instead of at the next attempt. */
  retry(): void;
}

const PING_MS = 15_000;
const PONG_TIMEOUT_MS = 10_000;
const RECONNECT: BackoffLimits = { firstMs: 500, maxMs: 15_000 };
/** Errors that a retry cannot resolve: an invalid query, an insufficient role (contract §6). */
const PERMANENT_CLOSE_CODES = new Set([4400, 4403]);
/** The credential or the ticket has expired. */
const UNAUTHENTICATED = 4401;

export interface StreamParts {
  path: '/ws/state' | '/ws/actors';
  query?: Readonly<Record<string, string>>;
  onMessage(message: unknown): void;
  /** Called when the stream is live; earlier changes have to be fetched. */
  onOpen(): void;
  onStateChange(state: StreamState): void;
}

export function openStream({ path, query = {}, onMessage, onOpen, onStateChange }: StreamParts): Stream {
  let socket: WebSocket | null = null;
  let isClosed = false;
  let failures = 0;
  let isConnecting = false;
  let since = Date.now();
  let retryTimer: ReturnType<typeof setTimeout> | undefined;
  let pingTimer: ReturnType<typeof setInterval> | undefined;
  let lastMessageAt = 0;

  async function connect(): Promise<void> {
    if (isConnecting) return;
    isConnecting = true;
    clearTimeout(retryTimer);
    if (failures === 0) onStateChange({ status: 'connecting' });
    try {
      const { ticket } = await requestJson<{ ticket: string }>('POST', '/ws/ticket', { body: {} });
      if (!isClosed) attach(new WebSocket(address(path, { ...query, token: ticket })));
    } catch (thrown) {
      const problem = thrown instanceof Problem ? thrown : null;
      const isPermanent = problem !== null && [401, 403].includes(problem.status);
      if (!isClosed) handleLoss(problem?.message ?? 'The service does not respond.', isPermanent);
    }
  }

  function attach(ws: WebSocket): void {
    socket = ws;
    let ended = false;
    let isLive = false;
    const end = (reason: string, isPermanent = false): void => {
      if (ended || isClosed) return;
      ended = true;
      clearInterval(pingTimer);
      ws.close();
      handleLoss(reason, isPermanent);
    };
    ws.onopen = () => {
      lastMessageAt = Date.now();
      ws.send('ping');
      pingTimer = setInterval(() => {
        if (Date.now() - lastMessageAt > PING_MS + PONG_TIMEOUT_MS) end('The service stopped responding.');
        else ws.send('ping');
      }, PING_MS);
    };
    ws.onmessage = ({ data }) => {
      lastMessageAt = Date.now();
      // The first message shows that the ticket was accepted.
      if (!isLive) goLive();
      if (data !== 'pong') onMessage(JSON.parse(`${data}`));
    };
    const goLive = (): void => {
      isLive = true;
      failures = 0;
      onStateChange({ status: 'live' });
      onOpen();
    };
    ws.onclose = ({ code, reason }) => {
      if (code === UNAUTHENTICATED) markSessionUncertain();
      end(reason || 'The connection was lost.', PERMANENT_CLOSE_CODES.has(code));
    };
    ws.onerror = () => end('The service does not respond.');
  }

  function handleLoss(reason: string, isPermanent: boolean): void {
    isConnecting = false;
    if (isPermanent) {
      onStateChange({ status: 'refused', reason });
      return;
    }
    if (failures === 0) since = Date.now();
    failures += 1;
    const pause = backoffDelay(failures, RECONNECT, 'half');
    onStateChange({ status: 'lost', since, retryAt: Date.now() + pause, reason });
    retryTimer = setTimeout(() => void connect(), pause);
  }

  const retry = (): void => {
    if (!isClosed && failures > 0) void connect();
  };
  addEventListener('online', retry);
  void connect();
  return {
    retry,
    close() {
      isClosed = true;
      clearTimeout(retryTimer);
      clearInterval(pingTimer);
      removeEventListener('online', retry);
      socket?.close();
    },
  };
}

function address(path: string, query: Readonly<Record<string, string>>): URL {
  const url = new URL(SERVICE_PATH + path, location.href);
  url.protocol = url.protocol.replace('http', 'ws');
  url.search = `${new URLSearchParams(query)}`;
  return url;
}
