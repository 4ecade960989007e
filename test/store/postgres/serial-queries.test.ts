import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import { SerialQueries } from '../../../src/store/postgres/serial-queries.ts';
import { eventLoopTurns } from '../../support/clock.ts';

/** A connection whose statements the test ends. */
class SlowClient {
  readonly running: { text: string; end: PromiseWithResolvers<{ rows: object[] }> }[] = [];

  readonly query = ({ text }: { text: string }) => {
    const end = Promise.withResolvers<{ rows: object[] }>();
    this.running.push({ text, end });
    return end.promise;
  };
}

describe('statements of one connection', () => {
  it('are sent one at a time, also after one that fails', async () => {
    const client = new SlowClient();
    const queries = new SerialQueries(client as unknown as pg.Client);
    const first = queries.query({ text: 'first' });
    const second = queries.query({ text: 'second' });
    await eventLoopTurns(2);
    expect(client.running.map(({ text }) => text)).toEqual(['first']);
    client.running[0]?.end.reject(new Error('refused'));
    await expect(first).rejects.toThrow('refused');
    await eventLoopTurns(2);
    expect(client.running.map(({ text }) => text)).toEqual(['first', 'second']);
    client.running[1]?.end.resolve({ rows: [{ n: 1 }] });
    expect(await second).toEqual({ rows: [{ n: 1 }] });
  });
});
