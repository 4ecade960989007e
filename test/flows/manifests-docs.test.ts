import { expect, it } from 'vitest';
import { categories } from '../../src/domain/capability-registry.ts';
import { codeBlock, readDocument, testDocument } from '../support/documented-session.ts';

const path = 'docs/manifests.md';
const page = readDocument(path);

testDocument(path, { files: { 'feeder.mjs': codeBlock(page, 'js') } });

it('docs/manifests.md lists every category, with actions that it has', () => {
  const known: Record<string, string[]> = categories();
  const table = page.slice(page.indexOf('| category |'), page.indexOf('Every category also'));
  const rows = [...table.matchAll(/^\| `(\w+)` \| (.+) \|$/gm)].map(([, category = '', actions = '']) => ({
    category,
    actions: [...actions.matchAll(/`(\w+)`/g)].map(([, action]) => action),
  }));
  expect(rows.map(({ category }) => category)).toEqual(Object.keys(known));
  for (const { category, actions } of rows) expect(known[category]).toEqual(expect.arrayContaining(actions));
});
