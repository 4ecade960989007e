import { expect, it, vi } from 'vitest';
import { makeDocumentCache } from '../../../src/edges/graphql/documents.ts';
import { makeSchema } from '../../../src/edges/graphql/schema.ts';

it('caches repeated documents, and only a few long ones', () => {
  const schemas = [makeSchema(), makeSchema({ executed: true })] as const;
  const { prepare } = makeDocumentCache(() => schemas, { hideSuggestions: false });
  const documentOf = (query: string) => {
    const found = prepare({ query, operationName: null, variables: {} });
    if ('errors' in found) throw found.errors[0];
    return found.document;
  };
  const usual = Array.from({ length: 100 }, (_, n) => `query usual${n} { me { user { id email role } } }`);
  const long = Array.from({ length: 20 }, (_, n) => `query long${n} { me { user { id } } } #${'x'.repeat(16_000)}`);
  const documents = usual.map(documentOf);
  expect(usual.map(documentOf)).toEqual(documents);
  expect(usual.every((query, n) => documentOf(query) === documents[n])).toBe(true);
  const [first] = long.map(documentOf);
  expect(documentOf(long.at(-1) as string)).toBe(documentOf(long.at(-1) as string));
  expect(documentOf(long[0] as string)).not.toBe(first);
});

it('gets the schemas when the first document is validated', () => {
  const getSchemas = vi.fn(() => [makeSchema(), makeSchema({ executed: true })] as const);
  const { prepare } = makeDocumentCache(getSchemas, { hideSuggestions: false });
  prepare({ query: 'no document', operationName: null, variables: {} });
  expect(getSchemas).not.toHaveBeenCalled();
  prepare({ query: '{ me { user { id } } }', operationName: null, variables: {} });
  expect(getSchemas).toHaveBeenCalled();
});
