import { jsonEqual } from './json/value.ts';
import type { EpochMs } from './values.ts';

/** An entry of a device's connection history. */
export type ConnectionEvent =
  | { at: EpochMs; event: 'online' | 'offline' }
  /** `firmware`: the version that the `hello` named; null if it named none. */
  | { at: EpochMs; event: 'hello'; firmware: string | null }
  /** A `hello` named another version than the one before. */
  | { at: EpochMs; event: 'firmware'; firmware: string; previous: string | null };

export const connectionEventNames = ['online', 'offline', 'hello', 'firmware'] as const;

/** Entries that are kept of a device, so that one that reconnects all the time does not fill the store. */
export const MAX_CONNECTION_EVENTS = 20;

/** The newest entries of both, newest first; those that are in both only once. */
export const mergeConnectionEvents = (
  newer: readonly ConnectionEvent[],
  older: readonly ConnectionEvent[],
): ConnectionEvent[] =>
  [...newer, ...older.filter((one) => !newer.some((known) => jsonEqual(one, known)))].slice(0, MAX_CONNECTION_EVENTS);
