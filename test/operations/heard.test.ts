import { describe, expect, it } from 'vitest';
import { Heard, type HeardMessage } from '../../src/operations/heard.ts';

const DEVICE = '0195d9a2-7f00-7000-8000-000000000001';
const said = (at: number): HeardMessage => ({ at, channel: 'state', sequence: at, refusal: null, repeat: false });
const listening = () => new Heard({ now: () => 500 });

describe('what devices said lately', () => {
  it('is the last twenty messages, newest first', () => {
    const heard = listening();
    for (let at = 1; at <= 47; at++) heard.message(DEVICE, said(at));
    const times = heard.messages(DEVICE).map(({ at }) => at);
    expect(times).toEqual(Array.from({ length: 20 }, (_, back) => 47 - back));
    expect(heard.since).toBe(500);
  });

  it('is nothing of a device that was not heard', () => {
    expect(listening().messages(DEVICE)).toEqual([]);
    expect([...listening().properties(DEVICE)]).toEqual([]);
  });

  it('dates each property by the report that named it last', () => {
    const heard = listening();
    heard.message(DEVICE, said(1), { state: { on: true, level: 40, mode: 'day' }, full: true });
    heard.message(DEVICE, said(2), { state: { level: 50, mode: null }, full: false });
    heard.message(DEVICE, said(3));
    expect(Object.fromEntries(heard.properties(DEVICE))).toEqual({ on: 1, level: 2 });
    heard.message(DEVICE, said(4), { state: { on: null }, full: true });
    expect(Object.fromEntries(heard.properties(DEVICE))).toEqual({ on: 4 });
  });

  it('is bounded, whatever a device names', () => {
    const heard = listening();
    const state = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`p${n}`, n]));
    heard.message(DEVICE, said(1), { state, full: false });
    expect(heard.properties(DEVICE).size).toBe(200);
  });
});
