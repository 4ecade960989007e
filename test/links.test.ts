import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const documents = globSync(['*.md', 'docs/**/*.md', 'bench/**/*.md', 'packages/*/*.md', 'devices/**/*.md'], {
  cwd: root,
}).sort();

const withoutCode = (text: string): string => text.replace(/^```[\s\S]*?^```$/gm, '').replace(/`[^`\n]*`/g, 'code');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

/** Anchors of the headings of a document, as GitHub makes them. */
function anchorsOf(path: string): Set<string> {
  const anchors = new Set<string>();
  const text = read(path).replace(/^```[\s\S]*?^```$/gm, '');
  for (const [, heading = ''] of text.matchAll(/^#{1,6} +(.+?) *$/gm)) {
    const base = heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{M} _-]/gu, '')
      .replaceAll(' ', '-');
    let anchor = base;
    for (let n = 1; anchors.has(anchor); n++) anchor = `${base}-${n}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** Why a link of a document leads nowhere; null if it does not. */
function defectOf(document: string, link: string): string | null {
  const [path = '', anchor = ''] = link.split('#');
  const target = path === '' ? document : normalize(join(dirname(document), decodeURIComponent(path)));
  if (target.startsWith('..') || !existsSync(join(root, target))) return `${link}: no such file`;
  if (anchor === '' || statSync(join(root, target)).isDirectory() || !target.endsWith('.md')) return null;
  return anchorsOf(target).has(anchor) ? null : `${link}: no such heading`;
}

describe('the documents', () => {
  it.each(documents)('%s links to files and headings that exist', (document) => {
    const links = [...withoutCode(read(document)).matchAll(/\]\((?!https?:|mailto:)([^)\s]+)\)/g)].map(
      ([, link]) => link as string,
    );
    expect(links.map((link) => defectOf(document, link)).filter((defect) => defect !== null)).toEqual([]);
  });

  it('are all linked from the README, directly or by another document', () => {
    const reached = new Set<string>(['README.md']);
    for (const document of reached)
      for (const [, path = ''] of read(document).matchAll(/\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)/g)) {
        const target = normalize(join(dirname(document), path)).replace(/\/$/, '');
        if (target.endsWith('.md')) reached.add(target);
        // A link to a folder leads to the documents in it.
        else for (const inside of documents) if (dirname(inside) === target) reached.add(inside);
      }
    expect(documents.filter((document) => !reached.has(document))).toEqual([]);
  });

  it('show each picture of the console, and each is made by a test', () => {
    const shown = documents.flatMap((document) =>
      [...read(document).matchAll(/!\[[^\]]+\]\(([^)]+\/console\/[^)]+|console\/[^)]+)\)/g)].map(([, path = '']) =>
        normalize(join(dirname(document), path)),
      ),
    );
    const made = globSync('test/console/*.test.ts', { cwd: root }).flatMap((test) =>
      [...read(test).matchAll(/saveScreenshot\(page, '([^']+)'\)/g)].map(([, name]) => `docs/console/${name}.png`),
    );
    const files = globSync('docs/console/*', { cwd: root }).sort();
    expect([...new Set(shown)].sort()).toEqual(files);
    expect(made.sort()).toEqual(files);
  });

  it('have a README that fits on two pages', () => {
    expect(read('README.md').trimEnd().split('\n').length).toBeLessThanOrEqual(120);
  });
});
