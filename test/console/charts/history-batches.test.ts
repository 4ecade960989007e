import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Problem } from '../../../console/src/api/problem.ts';
import { HistoryBatches, MAX_BATCH, type WantedHistory } from '../../../console/src/charts/history-batches.ts';
import type { HistoryAnswer } from '../../../console/src/charts/points.ts';

const NOON = Date.UTC(2026, 2, 1, 12);
const wanted = (property: string, changes: Partial<WantedHistory> = {}): WantedHistory => ({
  ...{ deviceId: 'd', property, from: NOON, to: null, step: null },
  ...changes,
});

describe('the histories that a page wants', () => {
  let sent: (readonly WantedHistory[])[];
  let running: number;
  let refusal: (batch: readonly WantedHistory[]) => Problem | null;
  let batches: HistoryBatches;

  beforeEach(() => {
    vi.useFakeTimers();
    sent = [];
    running = 0;
    refusal = () => null;
    batches = new HistoryBatches(async (batch) => {
      running += 1;
      expect(running).toBe(1);
      sent.push(batch);
      await Promise.resolve();
      running -= 1;
      const refused = refusal(batch);
      if (refused !== null) throw refused;
      return batch.map(({ property }) => ({ property }) as HistoryAnswer);
    });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** Properties of the answers, and the texts of problems. */
  const load = async (...all: WantedHistory[]): Promise<string[]> => {
    const answers = all.map((one) =>
      batches.load(one).then(
        ({ property }) => property,
        (problem: Error) => problem.message,
      ),
    );
    await vi.runAllTimersAsync();
    return Promise.all(answers);
  };

  it('are one request for those of the same time and step', async () => {
    expect(await load(wanted('a'), wanted('b', { from: NOON + 3 }), wanted('c'))).toEqual(['a', 'b', 'c']);
    expect(sent.map((batch) => batch.map(({ property, from }) => [property, from]))).toEqual([
      [
        ['a', NOON],
        ['b', NOON],
        ['c', NOON],
      ],
    ]);
  });

  it('are several requests for other times and steps, one after the other', async () => {
    const [day, raw] = [wanted('b', { from: NOON - 86_400_000 }), wanted('c', { step: 'raw' })];
    expect(await load(wanted('a'), day, raw, wanted('d', { to: NOON + 1 }))).toEqual(['a', 'b', 'c', 'd']);
    expect(sent).toHaveLength(4);
  });

  it('are divided, so that each series has enough points', async () => {
    const all = Array.from({ length: MAX_BATCH + 1 }, (_, n) => wanted(`p${n}`));
    await load(...all);
    expect(sent.map(({ length }) => length)).toEqual([MAX_BATCH, 1]);
  });

  it('are requested one by one if the query is refused, so that only the series at fault has a problem', async () => {
    const missing = new Problem({ code: 'NOT_FOUND', detail: 'No such device.', status: 404 });
    refusal = (batch) => (batch.some(({ deviceId }) => deviceId === 'gone') ? missing : null);
    expect(await load(wanted('a'), wanted('b', { deviceId: 'gone' }), wanted('c'))).toEqual([
      ...['a', 'No such device.', 'c'],
    ]);
    expect(sent.map(({ length }) => length)).toEqual([3, 1, 1, 1]);
  });

  it('all have the problem of a query that no series is at fault for', async () => {
    refusal = () => new Problem({ code: 'RATE_LIMIT_EXCEEDED', detail: 'Too many.', status: 429 });
    expect(await load(wanted('a'), wanted('b'))).toEqual(['Too many.', 'Too many.']);
    expect(sent).toHaveLength(1);
  });
});
