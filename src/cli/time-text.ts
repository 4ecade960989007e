import type { Io } from './io.ts';

/** A time as the service sends it: ISO 8601 in UTC. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/;

export const isTime = (text: string): boolean => TIME.test(text);

type Stream = 'stdout' | 'stderr';

/**
 * A time of the service for a person: on a terminal `2026-03-01 13:00:05` in the local time zone, or with `--utc`
 * `2026-03-01 12:00:05Z`. In a file or a pipe it is unchanged.
 */
export function formatTime(io: Pick<Io, Stream | 'display'>, time: string, stream: Stream = 'stdout'): string {
  if (io[stream].isTTY !== true || !isTime(time)) return time;
  if (io.display.utc) return `${time.slice(0, 10)} ${time.slice(11, 19)}Z`;
  const at = new Date(time);
  return `${at.getFullYear()}-${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())} ${clockText(at)}`;
}

/** The time of day of an update, in ms since 1970: `13:00:05.250`, in UTC in a file or a pipe and with `--utc`. */
export function formatTimeOfDay(io: Pick<Io, Stream | 'display'>, at: number): string {
  const date = new Date(at);
  if (io.stdout.isTTY !== true || io.display.utc) return date.toISOString().slice(11, 23);
  return `${clockText(date)}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

/** A time on the axis of a chart, with the date if the range is over a day, and without the time of day over 60 days. */
export function formatAxisTime(io: Pick<Io, 'display'>, at: number, rangeMs: number): string {
  const local = new Date(at);
  const shown = io.display.utc ? local : new Date(at - local.getTimezoneOffset() * 60_000);
  const text = shown.toISOString();
  const zone = io.display.utc ? 'Z' : '';
  if (rangeMs <= 25 * HOUR_MS) return `${text.slice(11, 16)}${zone}`;
  return rangeMs <= 60 * 24 * HOUR_MS ? `${text.slice(5, 10)} ${text.slice(11, 16)}${zone}` : text.slice(0, 10);
}

const HOUR_MS = 3_600_000;

/** A duration in its two largest units: `3 h 20 min`. */
export function formatDuration(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's'],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  if (first === -1) return '0 s';
  const shown = parts.slice(first, first + 2).filter(([count]) => count > 0);
  return shown.map(([count, unit]) => `${count} ${unit}`).join(' ');
}

const clockText = (at: Date): string => [at.getHours(), at.getMinutes(), at.getSeconds()].map(twoDigits).join(':');

const twoDigits = (value: number): string => String(value).padStart(2, '0');
