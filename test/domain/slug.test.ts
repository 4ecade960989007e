import { describe, expect, it } from 'vitest';
import { MAX_SLUG_LENGTH, slugFrom } from '../../src/domain/slug.ts';
import { fc } from '../support/properties.ts';

const isSlug = (text: string): boolean => text.length <= MAX_SLUG_LENGTH && /^[a-z0-9]+(-[a-z0-9]+)*$/.test(text);

describe('a slug', () => {
  it.each([
    ['Living Room', 'living-room'],
    ['  Café “Süd” — Größe 2 ', 'cafe-sud-grosse-2'],
    ['Łódź & Ærø', 'lodz-aero'],
    ['a---b', 'a-b'],
    ['ﬁle ①', 'file-1'],
  ])('of %j is %s', (name, expected) => expect(slugFrom(name)).toBe(expected));

  it('is usable for a name in any script, deterministic, and distinguishes names', () => {
    const names = ['Кухня', 'リビング', '客厅', '거실', 'مطبخ', '!!!', '🏠', 'Кухня 2', 'Спальня 2'];
    const slugs = names.map((name) => slugFrom(name));
    expect(new Set(slugs).size).toBe(names.length);
    expect(names.map((name) => slugFrom(name))).toEqual(slugs);
    expect(slugs.every(isSlug)).toBe(true);
    expect(slugFrom('Кухня 2')).toMatch(/^2-[0-9a-f]{6}$/);
  });

  it('of every name, with every suffix, is a slug that ends in the suffix', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 120 }),
        fc.option(fc.nat(), { nil: undefined }),
        (name, suffix) => {
          const text = slugFrom(name, suffix);
          expect(isSlug(text), text).toBe(true);
          if (suffix !== undefined) expect(text.endsWith(`-${suffix}`)).toBe(true);
        },
      ),
    );
  });

  it('differs with its suffix, for a name of any length', () => {
    const name = 'very long '.repeat(20);
    expect(slugFrom(name, 2)).not.toBe(slugFrom(name));
    expect(slugFrom(name, 2)).not.toBe(slugFrom(name, 3));
  });
});
