import { markSessionUncertain, requestJson } from '../api/client.ts';
import { Problem } from '../api/problem.ts';
import { SERVICE_PATH } from '../base.ts';

// A WebSocket of the service that comes back by itself. It is opened with a ticket, so that no credential stands in a URL.

export type StreamState =
  | { is: 'connecting' }
  | { is: 'live' }
  /** `next`: when it is tried again, epoch milliseconds. */
  | { is: 'lost'; since: number; retryAt: number; why: string }
  /** Nothing would change by trying again. */
  | { is: 'refused'; why: string };

export interface Stream {
  close(): void;
  /** Not to wait for the next try. */
  retry(): void;
}

const PING_MS = 15_000;
const PONG_TIMEOUT_MS = 10_000;
const MIN_RETRY_MS = 500;
const MAX_RETRY_MS = 15_000;
/** Errors that a retry cannot resolve: an invalid query, an insufficient role (contract §6). */
const PERMANENT_CLOSE_CODES = new Set([4400, 4403]);
/** The credential has ended, or the ticket came too late. */
const UNAUTHENTICATED = 4401;

export interface StreamParts {
  path: '/ws/state' | '/ws/actors';
  query?: Readonly<Record<string, string>>;
  onMessage(message: unknown): void;
  /** It hears from now on: what happened before has to be asked for. */
  onOpen(): void;
  onStateChange(state: StreamState): void;
}

export function openStream({ path, query = {}, onMessage, onOpen, onStateChange }: StreamParts): Stream {
  let socket: WebSocket | null = null;
  let over = false;
  let failures = 0;
  let underway = false;
  let since = Date.now();
  let waiting: ReturnType<typeof setTimeout> | undefined;
  let watch: ReturnType<typeof setInterval> | undefined;
  let heardAt = 0;

  async function connect(): Promise<void> {
    if (underway) return;
    underway = true;
    clearTimeout(waiting);
    if (failures === 0) onStateChange({ is: 'connecting' });
    try {
      const { ticket } = await requestJson<{ ticket: string }>('POST', '/ws/ticket', { body: {} });
      if (!over) follow(new WebSocket(address(path, { ...query, token: ticket })));
    } catch (thrown) {
      const problem = thrown instanceof Problem ? thrown : null;
      const final = problem !== null && [401, 403].includes(problem.status);
      if (!over) lost(problem?.message ?? 'The service does not answer.', final);
    }
  }

  function follow(opening: WebSocket): void {
    socket = opening;
    let ended = false;
    let isLive = false;
    const end = (why: string, final = false): void => {
      if (ended || over) return;
      ended = true;
      clearInterval(watch);
      opening.close();
      lost(why, final);
    };
    opening.onopen = () => {
      heardAt = Date.now();
      opening.send('ping');
      watch = setInterval(() => {
        if (Date.now() - heardAt > PING_MS + PONG_TIMEOUT_MS) end('The service went silent.');
        else opening.send('ping');
      }, PING_MS);
    };
    opening.onmessage = ({ data }) => {
      heardAt = Date.now();
      // The first answer says that it was let in.
      if (!isLive) letIn();
      if (data !== 'pong') onMessage(JSON.parse(`${data}`));
    };
    const letIn = (): void => {
      isLive = true;
      failures = 0;
      onStateChange({ is: 'live' });
      onOpen();
    };
    opening.onclose = ({ code, reason }) => {
      if (code === UNAUTHENTICATED) markSessionUncertain();
      end(reason || 'The connection was lost.', PERMANENT_CLOSE_CODES.has(code));
    };
    opening.onerror = () => end('The service does not answer.');
  }

  function lost(why: string, final: boolean): void {
    underway = false;
    if (final) {
      onStateChange({ is: 'refused', why });
      return;
    }
    if (failures === 0) since = Date.now();
    const pause = Math.min(MIN_RETRY_MS * 2 ** failures, MAX_RETRY_MS) * (0.75 + Math.random() / 2);
    failures += 1;
    onStateChange({ is: 'lost', since, retryAt: Date.now() + pause, why });
    waiting = setTimeout(() => void connect(), pause);
  }

  const retry = (): void => {
    if (!over && failures > 0) void connect();
  };
  addEventListener('online', retry);
  void connect();
  return {
    retry,
    close() {
      over = true;
      clearTimeout(waiting);
      clearInterval(watch);
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
