import { isObject } from './json/value.ts';
import { INVISIBLE_CHARACTER } from './memory.ts';
import type { Json } from './values.ts';

const MAX_CHARACTERS = 200;

/** Members of an error object that may have its text. */
const TEXT_MEMBERS = ['message', 'detail', 'reason', 'error', 'note'] as const;

const INVISIBLE = new RegExp(INVISIBLE_CHARACTER.source, 'gv');

/**
 * The `error` of a `cmd_ack` as a text for people, in one line of at most 200 characters: its text, or its JSON. Null if
 * there is none. Devices write what they like, so control and invisible characters are removed.
 */
export function deviceErrorText(error: Json): string | null {
  const text = textOf(error)
    .toWellFormed()
    .slice(0, 4 * MAX_CHARACTERS)
    .replace(/\s+/g, ' ')
    .replace(INVISIBLE, '')
    .trim();
  const characters = Array.from(text);
  if (characters.length === 0) return null;
  return characters.length > MAX_CHARACTERS ? `${characters.slice(0, MAX_CHARACTERS - 1).join('')}…` : text;
}

function textOf(error: Json): string {
  if (error === null) return '';
  if (typeof error === 'string') return error;
  if (!isObject(error)) return JSON.stringify(error);
  const [found] = TEXT_MEMBERS.map((name) => error[name]).filter((member) => typeof member === 'string');
  return found ?? JSON.stringify(error);
}
