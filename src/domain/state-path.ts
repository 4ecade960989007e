import type { Json } from './values.ts';

// A machine's state as people read it: `administration.active.one_key,link.online` instead of nested JSON.

/** The innermost states that are entered, each as its path from the root, in the order of their names. */
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

/** All of them as one text; states of regions that stand side by side are separated by commas. */
export const stateText = (value: Json): string => pathsOf(value).join(',');

/** `ack.received` stays as it is; a timer's event, which carries the whole path of its state, becomes `after grace over`. */
export function eventText(type: string): string {
  const [, timer] = /^xstate\.after\.([^.]+)\./.exec(type) ?? [];
  return timer ? `after ${camelCaseToWords(timer)}` : type;
}

/** `graceOver` → `grace over`. */
export const camelCaseToWords = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
