import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ME_PATH, requestJson } from '../../../console/src/api/client.ts';
import { Stream, type StreamState } from '../../../console/src/live/stream.ts';

const HOUR = 3_600_000;

/** A WebSocket that a test opens and closes. */
class FakeSocket {
  static readonly OPEN = 1;
  static all: FakeSocket[] = [];
  readyState = 0;
  onopen: () => void = () => {};
  onmessage: (event: { data: string }) => void = () => {};
  onclose: (event: { code: number; reason: string }) => void = () => {};
  onerror: () => void = () => {};
  readonly sent: string[] = [];

  constructor() {
    FakeSocket.all.push(this);
  }

  send(text: string): void {
    this.sent.push(text);
  }

  accept(): void {
    this.readyState = FakeSocket.OPEN;
    this.onopen();
    this.onmessage({ data: 'pong' });
  }

  close(code = 1_006): void {
    this.readyState = 3;
    this.onclose({ code, reason: '' });
  }
}

describe('an open page while the service does not respond', () => {
  /** Times of requests, by path. */
  let requests: { at: number; path: string }[];
  let isUp: boolean;
  let states: StreamState[];

  beforeEach(() => {
    vi.useFakeTimers();
    vi.spyOn(Math, 'random').mockReturnValue(0);
    requests = [];
    states = [];
    isUp = true;
    FakeSocket.all = [];
    vi.stubGlobal('location', { href: 'http://127.0.0.1/console/' });
    vi.stubGlobal('addEventListener', () => {});
    vi.stubGlobal('removeEventListener', () => {});
    vi.stubGlobal('WebSocket', FakeSocket);
    vi.stubGlobal('fetch', async (path: string) => {
      requests.push({ at: Date.now(), path });
      if (!isUp) throw new TypeError('failed');
      const body = path.endsWith('/csrf') ? { csrf_token: 'c' } : path.endsWith('/ticket') ? { ticket: 't' } : {};
      return new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } });
    });
  });
  afterEach(async () => {
    // The client keeps what it knows of the session, also for other tests.
    isUp = true;
    await requestJson('GET', ME_PATH);
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  const open = (onOpen = () => {}) =>
    new Stream({
      ...{ path: '/ws/state', query: () => ({ events: 'state' }), onMessage: () => {}, onOpen },
      onStateChange: (state) => states.push(state),
    });

  it('makes one attempt for each step of the back-off through a night, and connects by itself afterwards', async () => {
    let opens = 0;
    const stream = open(() => {
      opens += 1;
    });
    await vi.advanceTimersByTimeAsync(0);
    FakeSocket.all[0]?.accept();
    expect(opens).toBe(1);
    isUp = false;
    FakeSocket.all[0]?.close();
    requests = [];
    const timers: number[] = [];
    for (let hour = 0; hour < 10; hour += 1) {
      await vi.advanceTimersByTimeAsync(HOUR);
      timers.push(vi.getTimerCount());
    }
    // Half of the longest delay is the shortest one.
    const gaps = requests.slice(1).map(({ at }, n) => at - (requests[n]?.at ?? 0));
    expect(Math.min(...gaps.slice(6))).toBeGreaterThanOrEqual(7_500);
    expect(requests.length).toBeLessThanOrEqual((10 * HOUR) / 7_500 + 8);
    expect(new Set(requests.map(({ path }) => path))).toEqual(new Set(['/v1/auth/me', '/ws/ticket']));
    expect(new Set(timers).size).toBe(1);
    expect(states.at(-1)).toMatchObject({ status: 'lost' });

    isUp = true;
    await vi.advanceTimersByTimeAsync(16_000);
    FakeSocket.all.at(-1)?.accept();
    expect(opens).toBe(2);
    expect(states.at(-1)).toEqual({ status: 'live' });
    stream.close();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('makes one attempt for each step for all queries together, and a change of the user is always sent', async () => {
    const get = () => requestJson('GET', '/v1/devices').catch((problem: Error) => problem.message);
    const history = () => requestJson('POST', '/v1/history/query', { body: {} }).catch(() => null);
    await history();
    isUp = false;
    await get();
    requests = [];
    for (let second = 0; second < 600; second += 1) {
      await Promise.all([get(), get(), history()]);
      await history();
      await vi.advanceTimersByTimeAsync(1_000);
    }
    // Delays of 0.25 s to 5 s.
    expect(requests.length).toBeLessThanOrEqual(600 / 5 + 6);
    requests = [];
    const changed = await requestJson('POST', '/v1/homes', { body: {} }).catch((problem: Error) => problem.message);
    expect(changed).toBe('The service does not respond.');
    expect(requests).toHaveLength(1);
    isUp = true;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await get()).toEqual({});
  });

  it('calls back for a flush when what was under way has arrived, or when the connection ends', async () => {
    const stream = open();
    await vi.advanceTimersByTimeAsync(0);
    const [socket] = FakeSocket.all as [FakeSocket];
    socket.readyState = FakeSocket.OPEN;
    socket.onopen();
    const flushes: boolean[] = [];
    const record = (isComplete: boolean) => void flushes.push(isComplete);
    stream.flush(record);
    // The answer to the first ping.
    socket.onmessage({ data: 'pong' });
    expect(flushes).toEqual([]);
    socket.onmessage({ data: 'pong' });
    expect(flushes).toEqual([true]);
    stream.flush(record);
    socket.close();
    expect(flushes).toEqual([true, false]);
    stream.flush(record);
    expect(flushes).toEqual([true, false, false]);
    stream.close();
  });
});
