import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

// docs/security.md names the tests that repeat each attack, as `test/…`: "title", "title". They are no links: the package has no tests.

const root = fileURLToPath(new URL('..', import.meta.url));
const text = readFileSync(`${root}docs/security.md`, 'utf8').replace(/\s+/g, ' ');
const references = [...text.matchAll(/`(test\/[^`]+\.ts)`: ((?:"[^"]+"(?:, )?)+)/g)].map(
  ([, file = '', titles = '']) => ({ file, titles: [...titles.matchAll(/"([^"]+)"/g)].map(([, title = '']) => title) }),
);

describe('docs/security.md', () => {
  it('names at least one test with each file of tests', () => {
    expect(references).toHaveLength([...text.matchAll(/`test\/[^`]+\.ts`: /g)].length);
    expect(references.length).toBeGreaterThan(0);
  });

  it.each(references)('names tests that exist in $file', ({ file, titles }) => {
    const source = readFileSync(`${root}${file}`, 'utf8');
    const missing = titles.filter((title) => !source.includes(`'${title}'`));
    expect(missing).toEqual([]);
  });
});
