import { expect, it } from 'vitest';
import { MAX_FILTERS, parseFilters, withFilter, withoutFilter } from '../../../console/src/devices/saved-filters.ts';

const filter = (name: string, query = 'tag=a') => ({ name, query });
const many = (count: number) => Array.from({ length: count }, (_, n) => filter(`f${n}`));

it('saved filters are in the order of their names, one for each name, and 20 at most', () => {
  expect(withFilter([filter('b')], filter('a'))).toEqual([filter('a'), filter('b')]);
  expect(withFilter([filter('a')], filter('a', 'tag=b'))).toEqual([filter('a', 'tag=b')]);
  expect(withFilter(many(MAX_FILTERS), filter('more'))).toBeNull();
  expect(withFilter(many(MAX_FILTERS), filter('f1', 'tag=b'))).toHaveLength(MAX_FILTERS);
  expect(withoutFilter([filter('a'), filter('b')], 'a')).toEqual([filter('b')]);
});

it('stored filters are read without entries of another form', () => {
  const stored = JSON.stringify([filter('a'), null, 1, { name: 'b' }, { name: 'c', query: 3 }]);
  expect(parseFilters(stored)).toEqual([filter('a')]);
  for (const text of [null, '', '{', '{}', '"a"', 'null']) expect(parseFilters(text)).toEqual([]);
  expect(parseFilters(JSON.stringify(many(30)))).toHaveLength(MAX_FILTERS);
});
