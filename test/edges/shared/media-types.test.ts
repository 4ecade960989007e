import { expect, it } from 'vitest';
import { preferredType } from '../../../src/edges/shared/media-types.ts';

const offered = ['application/json', 'application/x-ndjson', 'text/csv'];

it.each([
  ['without the header the first type is preferred', undefined, 'application/json'],
  ['any type is the first one', '*/*', 'application/json'],
  ['a type is preferred to any other', '*/*, text/csv', 'text/csv'],
  ['the weight decides before the order', 'text/csv;q=0.5, application/x-ndjson; q=0.9', 'application/x-ndjson'],
  ['the weight decides before a type that is named', 'text/csv;q=0.5, */*', 'application/json'],
  ['of equal weights the order decides', 'text/csv, application/json', 'text/csv'],
  ['a range of types is the first one of it', 'application/*, text/csv;q=0.1', 'application/json'],
  ['a range of texts is the only text', 'text/*', 'text/csv'],
  ['a weight of 0 excludes a type', 'application/json;q=0, application/*', 'application/x-ndjson'],
  ['the most specific range has the weight of a type', '*/*;q=0.1, text/*;q=0.2, application/json;q=0', 'text/csv'],
  ['case and parameters are not compared', 'TEXT/CSV; header=present; Q=1.000', 'text/csv'],
  ['a wrong weight accepts nothing', 'text/csv;q=2, application/x-ndjson;q=high', null],
  ['another type alone is none of them', 'text/html', null],
  ['an empty header accepts nothing', '', null],
])('%s', (_, accept, expected) => {
  expect(preferredType(accept, offered)).toBe(expected);
});
