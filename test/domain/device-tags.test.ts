import { describe, expect, it } from 'vitest';
import { MAX_TAGS, tagList, tagsAfter } from '../../src/domain/device-tags.ts';

const many = (count: number) => Array.from({ length: count }, (_, n) => `t${n}`);

describe('tags in a request', () => {
  it.each([['outdoor'], ['0'], ['floor:2'], ['v1.2_beta-3'], ['site:berlin-01'], ['x'.repeat(32)]])(
    'may be %s',
    (tag) => {
      expect(tagList.parse([tag])).toEqual([tag]);
    },
  );

  it.each([
    [''],
    ['Outdoor'],
    ['küche'],
    ['two words'],
    ['a=b'],
    ['a:b:c'],
    [':a'],
    ['a:'],
    ['-a'],
    ['.a'],
    ['a,b'],
    ['a\n'],
    ['x'.repeat(33)],
  ])('are refused if one is %j', (tag) => {
    expect(tagList.safeParse([tag]).success).toBe(false);
  });

  it('are read in the order of their characters, each once', () => {
    expect(tagList.parse(['b', 'a', 'b', 'a-1', '0'])).toEqual(['0', 'a', 'a-1', 'b']);
  });

  it('are at most 16', () => {
    expect(tagList.parse(many(MAX_TAGS))).toHaveLength(16);
    expect(tagList.safeParse(many(MAX_TAGS + 1)).success).toBe(false);
  });
});

describe('a change of tags', () => {
  it('replaces the list, or removes tags and then adds others', () => {
    expect(tagsAfter(['a', 'b'], { set: ['c', 'a'] })).toEqual(['a', 'c']);
    expect(tagsAfter(['a', 'b'], { add: ['c'], remove: ['a'] })).toEqual(['b', 'c']);
    expect(tagsAfter(['a', 'b'], { add: ['a'], remove: ['a', 'x'] })).toEqual(['a', 'b']);
    expect(tagsAfter([], { add: [], remove: ['a'] })).toEqual([]);
  });
});
