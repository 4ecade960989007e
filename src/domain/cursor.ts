import { createHash } from 'node:crypto';
import { isObject } from './json/value.ts';
import { done, type Outcome, refuse } from './refusals.ts';
import { CANONICAL_UUID } from './uuid.ts';
import type { EpochMs } from './values.ts';

/** The list that a cursor is bound to: it is refused on another route or with other filters (contract §2). */
export interface Listing {
  route: string;
  filters?: Readonly<Record<string, string | number | boolean | readonly string[] | null | undefined>>;
  /** The form of the list's ids. A cursor with an id of another form is refused before a query runs. */
  ids?: 'uuid' | 'integer' | 'text' | 'entry';
}

/** Position of an entry; lists are ordered newest first by `createdAt`, then `id`. The next page begins after it. */
export interface Position {
  createdAt: EpochMs;
  id: string;
}

const MAX_CURSOR_LENGTH = 512;
const MAX_EPOCH_MS = 8.64e15;
const forms = {
  uuid: new RegExp(`^${CANONICAL_UUID}$`),
  /** An id and the number of an entry within it. */
  entry: new RegExp(`^${CANONICAL_UUID}\\.(0|[1-9]\\d{0,14})$`),
  integer: /^(0|[1-9]\d{0,15})$/,
  text: /^[\x21-\x7e]{1,128}$/,
};

export const makeCursor = (listing: Listing, position: Position): string => encode(position, boundTo(listing));

export function makeCursors(listing: Listing, positions: readonly Position[]): string[] {
  const bound = boundTo(listing);
  return positions.map((position) => encode(position, bound));
}

const encode = ({ createdAt: t, id: i }: Position, h: string): string =>
  Buffer.from(JSON.stringify({ t, i, h })).toString('base64url');

export function readCursor(listing: Listing, cursor: string): Outcome<Position> {
  const decoded = cursor.length <= MAX_CURSOR_LENGTH ? decode(cursor) : undefined;
  if (!isObject(decoded) || decoded.h !== boundTo(listing)) return invalidCursor();
  const { t: createdAt, i: id } = decoded;
  if (!Number.isSafeInteger(createdAt) || Math.abs(createdAt as number) > MAX_EPOCH_MS) return invalidCursor();
  if (typeof id !== 'string' || !forms[listing.ids ?? 'uuid'].test(id)) return invalidCursor();
  return done({ createdAt: createdAt as number, id });
}

const invalidCursor = () =>
  refuse('VALIDATION_FAILED', 'The cursor does not belong to this list.', {
    errors: [{ path: 'cursor', message: 'belongs to another list or other filters' }],
  });

function decode(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    return undefined;
  }
}

function boundTo({ route, filters = {} }: Listing): string {
  const given = Object.entries(filters).filter(([, value]) => value !== undefined && value !== null);
  given.sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify([route, given]))
    .digest('base64url')
    .slice(0, 16);
}
