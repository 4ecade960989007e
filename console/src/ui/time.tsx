import { useNow } from './clock.ts';

// Times in the user's time zone and language.

const dateTimeFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const dateFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const timeFormat = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' });

export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const fullTime = (at: string | number): string => dateTimeFormat.format(new Date(at));

/** The date and the time of day, with seconds. */
export const dateAndTime = (at: string): readonly [date: string, time: string] => {
  const moment = new Date(at);
  return [dateFormat.format(moment), timeFormat.format(moment)];
};

const units: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
];

export function ago(at: number, now: number): string {
  const difference = at - now;
  for (const [unit, length] of units) {
    if (Math.abs(difference) >= length) return relative.format(Math.trunc(difference / length), unit);
  }
  return Math.abs(difference) < 5_000 ? 'just now' : relative.format(Math.trunc(difference / 1000), 'second');
}

/** `3 min ago`, with the full time as tooltip; `exact` shows the time of day. */
export function Time({ at, exact = false }: { at: string | number | null; exact?: boolean }) {
  const now = useNow();
  if (at === null) return <span className="quiet">never</span>;
  const moment = new Date(at);
  return (
    <time dateTime={moment.toISOString()} title={`${dateTimeFormat.format(moment)} ${zone}`}>
      {exact ? timeFormat.format(moment) : ago(moment.getTime(), now)}
    </time>
  );
}

/** `last seen 3 min ago`; `never connected` for a device without a time. */
export const LastSeen = ({ at }: { at: string | number | null }) =>
  at === null ? (
    'never connected'
  ) : (
    <>
      last seen <Time at={at} />
    </>
  );

/** A day in the past or the future, with the full time as tooltip. */
export const Day = ({ at }: { at: string }) => (
  <time dateTime={at} title={`${fullTime(at)} ${zone}`}>
    {dateFormat.format(new Date(at))}
  </time>
);

const twoDigits = (value: number): string => `${value}`.padStart(2, '0');

export function duration(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  const [days, hours, minutes] = [
    Math.floor(seconds / 86_400),
    Math.floor(seconds / 3_600) % 24,
    Math.floor(seconds / 60) % 60,
  ];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${twoDigits(minutes)} min`;
  return `${minutes}:${twoDigits(seconds % 60)}`;
}

/** A duration: `40 ms`, `3.2 s`, `2:05`. */
export function elapsedTime(milliseconds: number): string {
  if (milliseconds < 1_000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  return milliseconds < 60_000 ? `${(milliseconds / 1000).toFixed(1)} s` : duration(milliseconds);
}

/** Remaining time: `in 0:27`. */
export function Countdown({ until }: { until: string }) {
  const left = Date.parse(until) - useNow();
  return (
    <time dateTime={until} title={`${fullTime(until)} ${zone}`} className="countdown">
      {left <= 0 ? 'due now' : `in ${duration(left)}`}
    </time>
  );
}
