import { z } from 'zod';
import { categoryNames } from '../domain/capability-registry.ts';
import { type Listing, makeCursor, makeCursors, readCursor } from '../domain/cursor.ts';
import { done, type Outcome, refuse } from '../domain/refusals.ts';
import { isTimezone } from '../domain/timezone.ts';
import type { Page, Position } from '../store/contract.ts';

/** What an id names; its refusal is the same whether the thing is missing, another tenant's, or the id is no UUID. */
export const notFoundDetails = {
  device: 'There is no such device.',
  home: 'There is no such home.',
  room: 'There is no such room.',
  group: 'There is no such group.',
  command: 'There is no such command.',
  plan: 'There is no such plan.',
  tenant: 'There is no such tenant.',
  key: 'There is no such API key.',
  member: 'There is no such member.',
  invitation: 'There is no such invitation.',
  flag: 'There is no such flag.',
  firmware: 'There is no such firmware.',
  actor: 'There is no such actor.',
  machine: 'There is no such machine.',
  memory: 'There is no such memory.',
  proposal: 'There is no such proposal.',
} as const;
export type Noun = keyof typeof notFoundDetails;

export const notFound = (noun: Noun) => refuse('NOT_FOUND', notFoundDetails[noun]);

/** The id of something: `perform` answers NOT_FOUND for a text that is no UUID, in a path as in a body. */
export const idOf = (noun: Noun) => z.uuid().toLowerCase().meta({ noun });

export const isUuid = (text: string): boolean => UUID.test(text);
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** A category of devices, to narrow the devices of a room. */
export const category = z
  .enum(categoryNames as [string, ...string[]])
  .meta({ description: 'Only devices of this category' });

/** The slug of a group, in a path. */
export const slug = z
  .string()
  .regex(/^[a-z0-9-]{1,64}$/)
  .meta({ noun: 'group' });

/** A name that a person gives: 1–100 characters, not only blanks, no control characters. */
export const displayName = z
  .string()
  .min(1)
  .max(100)
  .regex(/\S/, 'must not be blank')
  .regex(/^\P{Cc}*$/u, 'must hold no control characters');

export const timezone = z
  .string()
  .max(64)
  .refine(isTimezone, 'is not an IANA time zone')
  .meta({ description: 'IANA zone name', examples: ['Europe/Berlin'] });

/** Times on HTTP are ISO 8601 in UTC. */
export const isoTime = z.iso.datetime().meta({ examples: ['2026-03-01T12:00:00.000Z'] });
export const iso = (at: number): string => new Date(at).toISOString();

/** The members that every list takes (contract §2). */
export const paging = {
  limit: z.int().min(1).max(200).default(50).meta({ description: 'Entries on a page' }),
  cursor: z.string().min(1).max(512).optional().meta({ description: '`next_cursor` of the page before' }),
};
export const nextCursor = z.string().nullable().meta({ description: 'Null on the last page' });

/** Where the page begins that `cursor` asks for; undefined is the first one. */
export function startOf(listing: Listing, cursor: string | undefined): Outcome<Position | undefined> {
  return cursor === undefined ? done(undefined) : readCursor(listing, cursor);
}

/** For who goes on after any entry of the page. */
export const cursorsIn = (listing: Listing, page: Page<unknown>) => (): string[] =>
  makeCursors(listing, page.positions());

export const cursorAfter = (listing: Listing, page: Page<unknown>): string | null =>
  page.next === null ? null : makeCursor(listing, page.next);
