import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { formatTime, formatTimeOfDay } from '../../src/cli/time-text.ts';

const TIME = '2026-03-01T12:00:05.250Z';
const zone = process.env.TZ;

/** Streams of a command on a terminal or in a pipe. */
const streams = (isTTY: boolean, utc = false) =>
  ({ stdout: { isTTY }, stderr: { isTTY: !isTTY }, display: { wide: false, utc } }) as Parameters<typeof formatTime>[0];

describe('a time', () => {
  beforeEach(() => {
    process.env.TZ = 'America/New_York';
  });
  afterEach(() => {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  });

  it('is local on a terminal', () => {
    expect(formatTime(streams(true), TIME)).toBe('2026-03-01 07:00:05');
    expect(formatTime(streams(true), '2026-07-01T02:00:05Z')).toBe('2026-06-30 22:00:05');
    expect(formatTimeOfDay(streams(true), Date.parse(TIME))).toBe('07:00:05.250');
  });

  it('is in UTC with --utc', () => {
    expect(formatTime(streams(true, true), TIME)).toBe('2026-03-01 12:00:05Z');
    expect(formatTimeOfDay(streams(true, true), Date.parse(TIME))).toBe('12:00:05.250');
  });

  it('is unchanged in a pipe, of each stream', () => {
    expect(formatTime(streams(false), TIME)).toBe(TIME);
    expect(formatTime(streams(true), TIME, 'stderr')).toBe(TIME);
    expect(formatTime(streams(false), TIME, 'stderr')).toBe('2026-03-01 07:00:05');
    expect(formatTimeOfDay(streams(false), Date.parse(TIME))).toBe('12:00:05.250');
  });

  it('is only what the service sends as one', () => {
    for (const text of ['2026-03-01', 'until 2026-03-01T12:00:05.250Z', '-']) {
      expect(formatTime(streams(true), text)).toBe(text);
    }
  });
});
