import { describe, expect, it } from 'vitest';
import { type Listing, makeCursor, type Position, readCursor } from '../../src/domain/cursor.ts';
import { fc } from '../support/properties.ts';

const listing: Listing = { route: 'GET /devices', filters: { home_id: 'h', online: true, room_id: undefined } };
const position: Position = { createdAt: 1_750_000_000_123, id: '01920000-0000-7000-8000-000000000001' };
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const decode = (cursor: string) => JSON.parse(Buffer.from(cursor, 'base64url').toString()) as Record<string, unknown>;

describe('a cursor', () => {
  it('decodes to the position it was created from', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.integer({ min: 0, max: 8.64e15 }), (id, createdAt) => {
        expect(readCursor(listing, makeCursor(listing, { id, createdAt }))).toEqual({
          ok: true,
          value: { id, createdAt },
        });
      }),
    );
  });

  it('ignores the order of the filters, and filters that are not set', () => {
    const same: Listing = { route: 'GET /devices', filters: { device_type: null, online: true, home_id: 'h' } };
    expect(readCursor(same, makeCursor(listing, position)).ok).toBe(true);
    expect(readCursor({ route: 'GET /homes' }, makeCursor({ route: 'GET /homes', filters: {} }, position)).ok).toBe(
      true,
    );
  });

  it.each<[string, Listing]>([
    ['another route', { ...listing, route: 'GET /homes' }],
    ['another filter', { ...listing, filters: { home_id: 'other', online: true } }],
    ['no filters', { route: 'GET /devices' }],
    ['one filter more', { ...listing, filters: { ...listing.filters, revoked: false } }],
  ])('is refused under %s', (_title, elsewhere) => {
    const outcome = readCursor(elsewhere, makeCursor(listing, position));
    expect(!outcome.ok && outcome.refusal).toMatchObject({ code: 'VALIDATION_FAILED', errors: [{ path: 'cursor' }] });
  });

  it('is refused when it was invented or changed, without a fault', () => {
    const held = decode(makeCursor(listing, position));
    const forged = [
      { t: '1' },
      { t: 1.5 },
      { t: 1e16 },
      { t: -9e15 },
      { t: null },
      { i: 7 },
      { i: "x'; drop table" },
      { i: '' },
      { i: `${position.id}\u0000` },
      { h: undefined },
      { h: 'x' },
    ].map((change) => encode({ ...held, ...change }));
    for (const cursor of ['', '!', 'null', encode(null), encode([]), encode('x'), `${'A'.repeat(600)}`, ...forged]) {
      expect(readCursor(listing, cursor).ok, cursor).toBe(false);
    }
    fc.assert(fc.property(fc.string({ maxLength: 600 }), (text) => !readCursor(listing, text).ok));
  });

  it('can contain ids that are not UUIDs where the list has such ids', () => {
    const journal: Listing = { route: 'GET /audit', ids: 'integer' };
    expect(readCursor(journal, makeCursor(journal, { ...position, id: '42' })).ok).toBe(true);
    expect(readCursor(journal, makeCursor(journal, { ...position, id: '4x' })).ok).toBe(false);
    const actors: Listing = { route: 'GET /actors', ids: 'text' };
    expect(readCursor(actors, makeCursor(actors, { ...position, id: 'device:1' })).ok).toBe(true);
    expect(readCursor(actors, makeCursor(actors, { ...position, id: 'a b' })).ok).toBe(false);
  });
});
