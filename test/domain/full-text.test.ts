import { describe, expect, it } from 'vitest';
import { toSearchQuery, toSearchText } from '../../src/domain/full-text.ts';
import { fc } from '../support/properties.ts';

describe('the indexed terms', () => {
  it.each([
    ['The Kitchen: 21.5 °C, kitchen/light on', 'the kitchen 21 5 c kitchen light on'],
    ['living_room&door:lamp', 'living room door lamp'],
    ['KÜCHE Kӥ', 'küche kӥ'],
    ['u\u0308ber ﬁx', 'über fix'],
    ['暖房は20度', '暖 房 は 20 度'],
    ['किताब', 'किताब'],
    ["don't", 'don t'],
    ['!!! -- ""', ''],
  ])('of %j are its case-folded terms', (text, kept) => {
    expect(toSearchText(text)).toBe(kept);
  });
});

describe('the search query', () => {
  it.each([
    ['Warm Light', 'warm light'],
    ['"warm light" -cold', '"warm light" -cold'],
    ['cold OR warm', 'cold or warm'],
    ['"or" light', '"or" light'],
    ['21.5 living_room', '"21 5" "living room"'],
    ['-暖房', '-"暖 房"'],
    ['"warm light', '"warm light"'],
    ["light') or 1=1 --", 'light or "1 1"'],
    ['& | ! <-> () :* "" -', ''],
  ])('for %j is %j', (query, requested) => {
    expect(toSearchQuery(query)).toBe(requested);
  });

  it('contains only terms, quotes, minus signs and spaces for any input', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 256 }), (query) => {
        expect(toSearchQuery(query)).toMatch(/^(-?("[\p{L}\p{M}\p{N} ]+"|[\p{L}\p{M}\p{N}]+)( |$))*$/u);
      }),
    );
  });
});
