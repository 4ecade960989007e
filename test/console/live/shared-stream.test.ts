import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Coverage, covers, includes, scopeFamilies, union } from '../../../console/src/live/coverage.ts';
import { SharedStream } from '../../../console/src/live/shared-stream.ts';
import type { StreamState } from '../../../console/src/live/stream.ts';

type Parts = Parameters<ConstructorParameters<typeof SharedStream>[0]>[0];

/** A connection that a test makes live, loses and flushes. */
class FakeConnection {
  readonly #parts: Parts;
  covered: Coverage | null = null;
  isClosed = false;
  flushed: ((isComplete: boolean) => void) | null = null;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  goLive(): void {
    this.covered = this.#parts.coverage();
    this.#parts.onStateChange({ status: 'live' });
    this.#parts.onOpen();
  }

  lose(): void {
    this.#parts.onStateChange({ status: 'lost', since: 0, retryAt: 0, reason: 'lost' });
  }

  refuse(): void {
    this.#parts.onStateChange({ status: 'refused', reason: 'refused' });
  }

  receive(message: object): void {
    this.#parts.onMessage(message, JSON.stringify(message));
  }

  retry = (): void => {};
  flush = (onFlushed: (isComplete: boolean) => void): void => {
    this.flushed = onFlushed;
  };
  close = (): void => {
    this.isClosed = true;
  };
}

const state = (device_id: string, on = true) => ({ type: 'state_update', device_id, state: { on } });

describe('a stream that subscribers share', () => {
  let opened: FakeConnection[];
  let states: (StreamState['status'] | null)[];
  let stream: SharedStream;

  beforeEach(() => {
    vi.useFakeTimers();
    opened = [];
    states = [];
    stream = new SharedStream(
      (parts) => {
        const connection = new FakeConnection(parts);
        opened.push(connection);
        return connection;
      },
      (changed) => states.push(changed?.status ?? null),
    );
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const subscribe = (kinds: string[], deviceIds: string[] | null) => {
    const received: unknown[] = [];
    const counts = { opens: 0 };
    const end = stream.subscribe({
      coverage: { kinds, deviceIds },
      onMessage: (message) => received.push(message),
      onOpen: () => {
        counts.opens += 1;
      },
    });
    return { received, counts, end };
  };
  const last = (): FakeConnection => opened.at(-1) as FakeConnection;
  const start = (): void => {
    vi.advanceTimersByTime(1_000);
    last().goLive();
  };

  it('is one connection with what all of them need, and each gets its own updates', () => {
    const one = subscribe(['state'], ['a']);
    const other = subscribe(['state', 'presence'], ['b']);
    start();
    expect(opened.map(({ covered }) => covered)).toEqual([{ kinds: ['presence', 'state'], deviceIds: ['a', 'b'] }]);
    last().receive(state('a'));
    last().receive(state('b'));
    last().receive({ type: 'presence_update', device_id: 'a', online: true });
    expect([one.received, other.received]).toEqual([[state('a')], [state('b')]]);
    expect([one.counts.opens, other.counts.opens]).toEqual([1, 1]);
  });

  it('opens no other connection for a subscriber that it covers, which fetches when updates arrive', async () => {
    subscribe(['state', 'command'], ['a', 'b']);
    start();
    const later = subscribe(['command'], ['b']);
    await vi.advanceTimersByTimeAsync(0);
    expect(later.counts.opens).toBe(1);
    vi.advanceTimersByTime(60_000);
    expect(opened).toHaveLength(1);
  });

  it('is replaced for further devices without missing or repeating an update', () => {
    const one = subscribe(['state'], ['a']);
    start();
    const [before] = opened as [FakeConnection];
    const other = subscribe(['state'], ['b']);
    vi.advanceTimersByTime(1_000);
    expect(opened).toHaveLength(2);
    before.receive(state('a', false));
    last().goLive();
    // Both connections have this update; the later one is on the way on the old connection only until it is flushed.
    last().receive(state('a', true));
    last().receive(state('b', true));
    before.receive(state('a', true));
    expect(one.received).toEqual([state('a', false), state('a', true)]);
    expect(other.received).toEqual([]);
    before.flushed?.(true);
    expect(before.isClosed).toBe(true);
    expect(one.received).toHaveLength(2);
    expect(other.received).toEqual([state('b', true)]);
    expect([one.counts.opens, other.counts.opens]).toEqual([1, 1]);
    expect(stream.sizes()).toEqual({ subscribers: 2, held: 0, delivered: 0 });
  });

  it('delivers once what the first connection had before the first message of its replacement', () => {
    const one = subscribe(['state'], ['a']);
    start();
    subscribe(['state'], ['b']);
    vi.advanceTimersByTime(1_000);
    opened[0]?.receive(state('a'));
    last().goLive();
    last().receive(state('a'));
    opened[0]?.flushed?.(true);
    expect(one.received).toEqual([state('a')]);
    expect(one.counts.opens).toBe(1);
  });

  it('has all subscribers fetch if the first connection ends, or does not answer, before it is flushed', () => {
    const one = subscribe(['state'], ['a']);
    start();
    for (const [id, opens] of [
      ['b', 2],
      ['c', 3],
    ] as const) {
      const before = last();
      subscribe(['state'], [id]);
      vi.advanceTimersByTime(1_000);
      last().goLive();
      if (id === 'b') before.flushed?.(false);
      else vi.advanceTimersByTime(5_000);
      expect(before.isClosed).toBe(true);
      expect(one.counts.opens).toBe(opens);
    }
  });

  it('keeps the first connection if its replacement is lost before that is flushed', () => {
    const one = subscribe(['state'], ['a']);
    start();
    const other = subscribe(['state'], ['b']);
    vi.advanceTimersByTime(1_000);
    const [before, next] = opened as [FakeConnection, FakeConnection];
    next.goLive();
    const early = before.flushed;
    next.receive(state('a', false));
    next.lose();
    early?.(true);
    vi.advanceTimersByTime(5_000);
    expect([before.isClosed, other.counts.opens]).toEqual([false, 0]);
    before.receive(state('a', false));
    next.goLive();
    early?.(true);
    expect(before.isClosed).toBe(false);
    before.flushed?.(true);
    expect([before.isClosed, one.counts.opens, other.counts.opens]).toEqual([true, 1, 1]);
    expect(one.received).toEqual([state('a', false)]);
  });

  it('remembers no more than a thousand updates while its replacement connects', () => {
    const one = subscribe(['state'], ['a']);
    start();
    subscribe(['state'], ['b']);
    vi.advanceTimersByTime(1_000);
    for (let n = 0; n < 3_000; n += 1) opened[0]?.receive({ ...state('a'), timestamp: n });
    expect(stream.sizes().delivered).toBe(1_000);
    expect(one.received).toHaveLength(3_000);
    last().lose();
    expect(stream.sizes().delivered).toBe(0);
  });

  it('ends at once with the session, and connects again for a subscriber of the next one', () => {
    const one = subscribe(['state'], ['a']);
    start();
    stream.reset();
    expect(last().isClosed).toBe(true);
    expect(states.at(-1)).toBeNull();
    one.end();
    const next = subscribe(['state'], ['b']);
    start();
    expect(opened).toHaveLength(2);
    expect(last().covered?.deviceIds).toEqual(['b']);
    last().receive(state('a'));
    last().receive(state('b'));
    expect([one.received, next.received]).toEqual([[], [state('b')]]);
  });

  it('has a valid query although its last subscriber has gone while it connects', () => {
    const one = subscribe(['state'], ['a']);
    vi.advanceTimersByTime(100);
    one.end();
    last().goLive();
    expect(last().covered).toEqual({ kinds: ['state'], deviceIds: ['a'] });
  });

  it('is opened again for the next subscriber after it was refused', () => {
    const one = subscribe(['state'], ['a']);
    vi.advanceTimersByTime(100);
    last().refuse();
    vi.advanceTimersByTime(60_000);
    expect(opened).toHaveLength(1);
    one.end();
    const next = subscribe(['state'], ['a']);
    start();
    expect(opened).toHaveLength(2);
    expect(next.counts.opens).toBe(1);
  });

  it('tries a refused replacement again with a growing delay, and shows until then that it was refused', () => {
    subscribe(['state'], ['a']);
    start();
    const other = subscribe(['state'], ['b']);
    vi.advanceTimersByTime(1_000);
    // A delay is between the half and the whole of this.
    for (const [n, seconds] of [5, 10, 20, 40, 80, 160, 300, 300].entries()) {
      last().refuse();
      vi.advanceTimersByTime(seconds * 500 - 1);
      expect(opened).toHaveLength(n + 2);
      vi.advanceTimersByTime(seconds * 500 + 1);
      expect(opened).toHaveLength(n + 3);
      expect(states.at(-1)).toBe('refused');
    }
    expect(opened.slice(1, -1).every(({ isClosed }) => isClosed)).toBe(true);
    expect(opened[0]?.isClosed).toBe(false);
    last().goLive();
    opened[0]?.flushed?.(true);
    expect([states.at(-1), other.counts.opens]).toEqual(['live', 1]);
    expect(stream.sizes()).toEqual({ subscribers: 2, held: 0, delivered: 0 });
  });

  it('is live again, without another attempt, when a refused replacement is no longer needed', () => {
    subscribe(['state'], ['a']);
    start();
    const other = subscribe(['state'], ['b']);
    vi.advanceTimersByTime(1_000);
    last().refuse();
    vi.advanceTimersByTime(1_000);
    other.end();
    vi.advanceTimersByTime(600_000);
    expect([states.at(-1), opened.length, last().isClosed]).toEqual(['live', 2, true]);
    subscribe(['state'], ['a']);
    vi.advanceTimersByTime(600_000);
    expect(opened).toHaveLength(2);
  });

  it('is replaced although the connection before does not answer, and holds no more than a thousand updates', () => {
    const one = subscribe(['state'], ['a']);
    start();
    subscribe(['state'], ['b']);
    vi.advanceTimersByTime(1_000);
    last().goLive();
    for (let n = 0; n < 5_000; n += 1) {
      last().receive({ ...state('a'), timestamp: n });
      expect(stream.sizes().held).toBeLessThanOrEqual(1_000);
    }
    expect(one.received).toHaveLength(5_000);

    subscribe(['state'], ['c']);
    vi.advanceTimersByTime(1_000);
    const silent = opened[1] as FakeConnection;
    last().goLive();
    vi.advanceTimersByTime(5_000);
    expect(silent.isClosed).toBe(true);
  });

  it('collects further needs into one replacement at a time', () => {
    subscribe(['state'], ['a']);
    start();
    for (const id of 'bcdefgh') {
      subscribe(['presence'], [id]);
      vi.advanceTimersByTime(100);
    }
    vi.advanceTimersByTime(1_000);
    expect(opened).toHaveLength(2);
    for (const id of 'ijk') subscribe(['presence'], [id]);
    vi.advanceTimersByTime(5_000);
    expect(opened).toHaveLength(2);
  });

  it('has all subscribers fetch after an interruption, and covers those that came in the meantime', () => {
    const one = subscribe(['state'], ['a']);
    start();
    last().lose();
    const other = subscribe(['state'], ['b']);
    vi.advanceTimersByTime(60_000);
    // The connection itself tries again: a subscriber causes no attempt.
    expect(opened).toHaveLength(1);
    last().goLive();
    expect(last().covered?.deviceIds).toEqual(['a', 'b']);
    expect([one.counts.opens, other.counts.opens]).toEqual([2, 1]);
  });

  it('needs less some time after a subscriber has gone, and ends with the last one', () => {
    const one = subscribe(['state'], ['a']);
    const other = subscribe(['state'], ['b']);
    start();
    other.end();
    vi.advanceTimersByTime(5_000);
    expect(opened).toHaveLength(1);
    vi.advanceTimersByTime(10_000);
    expect(opened).toHaveLength(2);
    last().goLive();
    opened[0]?.flushed?.(true);
    expect(last().covered?.deviceIds).toEqual(['a']);
    one.end();
    vi.advanceTimersByTime(2_000);
    expect(last().isClosed).toBe(true);
    expect(states.at(-1)).toBeNull();
  });

  it('shows that it is live while it is replaced, and that a replacement was lost', () => {
    subscribe(['state'], ['a']);
    start();
    subscribe(['state'], ['b']);
    vi.advanceTimersByTime(1_000);
    expect(states.at(-1)).toBe('live');
    last().lose();
    expect(states.at(-1)).toBe('lost');
  });
});

describe('what a connection covers', () => {
  it('is every device if a URL cannot name so many', () => {
    const ids = (count: number) => Array.from({ length: count }, (_, n) => `${n}`);
    expect(union([{ kinds: ['state'], deviceIds: ids(150) }]).deviceIds).toHaveLength(150);
    expect(union([{ kinds: ['state'], deviceIds: ids(151) }]).deviceIds).toBeNull();
  });

  it('decides which updates a subscriber gets', () => {
    const some = { kinds: ['state'], deviceIds: ['a'] };
    expect([state('a'), state('b'), { type: 'plan_update' }].map((one) => includes(some, one))).toEqual([
      ...[true, false, false],
    ]);
    expect(includes({ kinds: ['plan'], deviceIds: null }, { type: 'plan_update', plan_id: 'x' })).toBe(true);
    expect(covers(some, { kinds: ['state'], deviceIds: null })).toBe(false);
  });

  it('needs a scope for each family of kinds', () => {
    expect(scopeFamilies(['state', 'report', 'confirmation'])).toEqual(['commands', 'devices']);
    expect(scopeFamilies(['plan'])).toEqual(['plans']);
  });
});
