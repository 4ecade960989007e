import { expect, it } from 'vitest';
import { readDocument } from '../support/documented-session.ts';
import { defects } from './defects/list.ts';

const page = readDocument('docs/testing.md');

it('docs/testing.md lists every planted defect, and names only invariants that it describes', () => {
  const described = page.slice(page.indexOf('## Invariants'), page.indexOf('## Commands'));
  const rows = [...page.matchAll(/^\| `([a-z-]+)` \| (.+) \| \d+ \| `([a-z-]+)` \|$/gm)];
  expect(rows.map(([, name, title]) => [name, title])).toEqual(
    Object.entries(defects).map(([name, { title }]) => [name, title]),
  );
  for (const [, , , invariant] of rows) expect(described).toContain(`\`${invariant}\``);
});
