import type { Json } from './values.ts';

// Text form of a machine's state: `administration.active.one_key,link.online` instead of nested JSON.

/** The active leaf states as paths from the root, sorted. */
export function pathsOf(value: Json): string[] {
  const paths: string[] = [];
  const walk = (inner: Json, before: string): void => {
    if (typeof inner === 'string') paths.push(before + inner);
    else if (typeof inner === 'object' && inner !== null && !Array.isArray(inner)) {
      for (const [name, below] of Object.entries(inner)) walk(below, `${before}${name}.`);
    }
  };
  walk(value, '');
  return paths.sort();
}

/** The active leaf states as one text; states of parallel regions are separated by commas. */
export const stateText = (value: Json): string => pathsOf(value).join(',');

/**
 * Readable event type: `ack.received` is unchanged; a timer's event, which contains its state's path, becomes `after
 * grace over`.
 */
export function eventText(type: string): string {
  const [, timer] = /^xstate\.after\.([^.]+)\./.exec(type) ?? [];
  return timer ? `after ${camelCaseToWords(timer)}` : type;
}

/** `graceOver` → `grace over`. */
export const camelCaseToWords = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
