import { describe, expect, it } from 'vitest';
import { WaitingSet } from '../../../console/src/confirmations/waiting-set.ts';

const NOW = Date.parse('2026-03-01T12:00:00Z');
const entry = (command_id: string, inS = 300) => ({
  command_id,
  expires_at: new Date(NOW + inS * 1_000).toISOString(),
});
const update = (command_id: string, status: string, inS = 300) => ({
  ...{ command_id, status, expires_at: NOW + inS * 1_000 },
});

describe('the commands that wait for confirmation', () => {
  it('are those of the listing, with the updates after it', () => {
    const waiting = new WaitingSet();
    waiting.beginListing()([entry('a'), entry('b')]);
    expect(waiting.countAt(NOW)).toBe(2);
    waiting.apply(update('c', 'awaiting_confirmation'));
    waiting.apply(update('a', 'dispatched'));
    waiting.apply(update('b', 'cancelled'));
    expect(waiting.countAt(NOW)).toBe(1);
  });

  it('are none of the dry runs', () => {
    const waiting = new WaitingSet();
    waiting.beginListing()([]);
    waiting.apply({ ...update('preview', 'awaiting_confirmation'), dry_run: true });
    expect(waiting.countAt(NOW)).toBe(0);
  });

  it('include updates that arrived while the listing was requested', () => {
    const waiting = new WaitingSet();
    const end = waiting.beginListing();
    waiting.apply(update('new', 'awaiting_confirmation'));
    waiting.apply(update('answered', 'dispatched'));
    end([entry('answered'), entry('old')]);
    expect(waiting.countAt(NOW)).toBe(2);
  });

  it('are kept if a listing fails, and follow only the latest listing', () => {
    const waiting = new WaitingSet();
    waiting.beginListing()([entry('a')]);
    const first = waiting.beginListing();
    const second = waiting.beginListing();
    second([entry('a'), entry('b')]);
    first([]);
    waiting.beginListing()(null);
    expect(waiting.countAt(NOW)).toBe(2);
  });

  it('end when they expire', () => {
    const waiting = new WaitingSet();
    waiting.beginListing()([entry('short', 10), entry('long', 20)]);
    expect(waiting.countAt(NOW + 9_999)).toBe(2);
    expect(waiting.countAt(NOW + 10_000)).toBe(1);
    expect(waiting.countAt(NOW + 20_000)).toBe(0);
  });
});
