import { z } from 'zod';
import { type Listing, makeCursor, makeCursors, readCursor } from '../domain/cursor.ts';
import { categorySchema } from '../domain/enum-schemas.ts';
import { done, type Outcome, refuse } from '../domain/refusals.ts';
import { isTimezone } from '../domain/timezone.ts';
import { uuid } from '../domain/uuid-schema.ts';
import { MAX_COUNTED } from '../store/contract/page.ts';
import type { Page, Position } from '../store/contract.ts';

/** Refusals for an id: the same whether the resource is missing, belongs to another tenant, or the id is not a UUID. */
export const notFoundDetails = {
  device: 'Device not found.',
  ca: 'CA not found.',
  'ca-subject': 'The common name is not bound to this device.',
  home: 'Home not found.',
  room: 'Room not found.',
  group: 'Group not found.',
  command: 'Command not found.',
  plan: 'Plan not found.',
  tenant: 'Tenant not found.',
  key: 'API key not found.',
  member: 'Member not found.',
  session: 'Session not found.',
  invitation: 'Invitation not found.',
  flag: 'Flag not found.',
  node: 'Node not found.',
  firmware: 'Firmware not found.',
  'firmware-key': 'Firmware key not found.',
  actor: 'Actor not found.',
  machine: 'Machine not found.',
  dashboard: 'Dashboard not found.',
  memory: 'Memory not found.',
  proposal: 'Proposal not found.',
  change: 'Change request not found.',
} as const;
export type Noun = keyof typeof notFoundDetails;

export const notFound = (noun: Noun) => refuse('NOT_FOUND', notFoundDetails[noun]);

/** An id: `perform` answers NOT_FOUND for anything but a UUID, in a path or a body. */
export const idOf = (noun: Noun) => uuid.meta({ noun });

/** A category of devices, to filter the devices of a room. */
export const category = categorySchema.meta({ description: 'Only devices of this category' });

/** The slug of a group, in a path. */
export const slug = z
  .string()
  .regex(/^[a-z0-9-]{1,64}$/)
  .meta({ noun: 'group' });

/** A display name: 1–100 characters, not only white space, no control characters. */
export const displayName = z
  .string()
  .min(1)
  .max(100)
  .regex(/\S/, 'must not be blank')
  .regex(/^\P{Cc}*$/u, 'must not contain control characters');

export const timezone = z
  .string()
  .max(64)
  .refine(isTimezone, 'is not an IANA time zone')
  .meta({ description: 'IANA zone name', examples: ['Europe/Berlin'] });

/** A time in an input: RFC 3339, with `Z` or an offset. Read it with `Date.parse`. */
export const timeInput = z.iso
  .datetime({ offset: true })
  .meta({ examples: ['2026-03-01T12:00:00.000Z', '2026-03-01T13:00:00+01:00'] });

/** Times in answers are ISO 8601 in UTC. */
export const isoTime = z.iso.datetime().meta({ examples: ['2026-03-01T12:00:00.000Z'] });

/** The paging members of every list (contract §2). */
export const paging = {
  limit: z.int().min(1).max(200).default(200).meta({ description: 'Entries per page' }),
  cursor: z.string().min(1).max(512).optional().meta({ description: '`next_cursor` of the previous page' }),
};
/** The count of every list. */
export const listCount = z
  .int()
  .nullable()
  .meta({
    description: `Number of the entries of all pages; null if it is over ${MAX_COUNTED}, or the list has several pages and is not counted`,
  });
export const nextCursor = z.string().nullable().meta({ description: 'Null on the last page' });

/** The start of the page at `cursor`; undefined for the first page. */
export function startOf(listing: Listing, cursor: string | undefined): Outcome<Position | undefined> {
  return cursor === undefined ? done(undefined) : readCursor(listing, cursor);
}

/** A cursor after each entry of the page. */
export const cursorsIn = (listing: Listing, page: Page<unknown>) => (): string[] =>
  makeCursors(listing, page.positions());

export const cursorAfter = (listing: Listing, page: Page<unknown>): string | null =>
  page.next === null ? null : makeCursor(listing, page.next);
