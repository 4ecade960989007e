import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const records = readdirSync(`${root}docs/decisions`).filter((name) => /^\d{4}-.*\.md$/.test(name));
const documents = [
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'docs/glossary.md',
  'bench/README.md',
  'bench/what-was-tried.md',
  'docs/decisions/README.md',
  ...records.map((name) => `docs/decisions/${name}`),
];
const notWritten = new Set(['.git', 'node_modules', 'dist', 'coverage']);
const topLevel = readdirSync(root, { withFileTypes: true }).filter(({ name }) => !notWritten.has(name));
const folders = topLevel.filter((entry) => entry.isDirectory()).map(({ name }) => name);
const layers = readdirSync(`${root}src`);
const existing = [
  ...topLevel.map(({ name }) => name),
  ...folders.flatMap((folder) =>
    readdirSync(`${root}${folder}`, { recursive: true }).map((path) => `${folder}/${String(path)}`),
  ),
];

const read = (document: string): string => readFileSync(`${root}${document}`, 'utf8');

/** `folder/`, `folder/file.ts`, `file.ts` or `src/folder`, with `*`, `**`, `{a,b}` and `<placeholder>`. */
function isPath(code: string): boolean {
  if (!/^[\w.@*<>{},-]+(?:\/[\w.@*<>{},-]+)*\/?$/.test(code)) return false;
  const [first = '', ...rest] = code.split('/');
  return (
    /[\w*}>]\.(?:ts|tsx|md|cjs|mjs|json|proto|graphql|yaml|sh)$/.test(code) ||
    code.endsWith('/') ||
    (rest.length > 0 && [...folders, ...layers].includes(first))
  );
}

/** A pattern for the end of a path: documents shorten paths to the last folders where the context names the others. */
function patternOf(path: string): RegExp {
  const pattern = path
    .replace(/\/$/, '')
    .replace(/[.+]/g, '\\$&')
    .replace(/\{([^}]*)\}/g, (_, names: string) => `(?:${names.replaceAll(',', '|')})`)
    .replace(/<[^>]+>/g, '*')
    .replace(/\*+/g, (stars) => (stars.length > 1 ? '.*' : '[^/]*'));
  return new RegExp(`(?:^|/)${pattern}$`);
}

const pathsIn = (markdown: string): string[] =>
  [...markdown.replace(/^```.*?^```$/gms, '').matchAll(/`([^`\n]+)`/g)]
    .map(([, code]) => code as string)
    .filter(isPath);

const missingPaths = (markdown: string): string[] =>
  pathsIn(markdown).filter((path) => {
    const pattern = patternOf(path);
    return !existing.some((file) => pattern.test(file));
  });

describe('file paths in documents', () => {
  it.each(documents)('%s names only files and folders that exist', (document) => {
    expect(missingPaths(read(document))).toEqual([]);
  });

  it('are found in code quotes, with folders, patterns and placeholders', () => {
    const text =
      'In `src/main.ts`, `domain/nowhere.ts`, `machines/`, `src/*/wire.ts` and `src/<layer>/nothing/`; `a/b` and `GET /x` are none.';
    expect(pathsIn(text)).toEqual([
      'src/main.ts',
      'domain/nowhere.ts',
      'machines/',
      'src/*/wire.ts',
      'src/<layer>/nothing/',
    ]);
    expect(missingPaths(text)).toEqual(['domain/nowhere.ts', 'src/*/wire.ts', 'src/<layer>/nothing/']);
  });
});

describe('the stages of a device message in ARCHITECTURE.md', () => {
  const rows = [...read('ARCHITECTURE.md').matchAll(/^\| .+ \| `\w+: (\w+)` \| `(.+\.ts)` \|$/gm)];
  const stages = rows.map(([, type = '', file = '']) => [type, file] as const);

  it('are nine rows', () => expect(stages).toHaveLength(9));

  // `Buffer` is a type of Node; its row names the file that reads the socket.
  it.each(stages.filter(([type]) => type !== 'Buffer'))('name the type %s, which is declared in %s', (type, file) => {
    expect(read(`src/${file}`)).toMatch(new RegExp(`^(?:export )?(?:interface|type|class) ${type}\\b`, 'm'));
  });
});

describe('the index of decision records', () => {
  it('lists each record once, in order, with its number and title', () => {
    const listed = [...read('docs/decisions/README.md').matchAll(/^\| (\d+) \| \[(.+)\]\((.+)\) \| .+ \|$/gm)];
    const titles = records.map((name) => {
      const [, number, title] = /^# (\d+)\. (.+)\n/.exec(read(`docs/decisions/${name}`)) as RegExpExecArray;
      expect(name.startsWith(`${String(number).padStart(4, '0')}-`), name).toBe(true);
      return [number, title, name];
    });
    expect(listed.map(([, number, title, name]) => [number, title, name])).toEqual(titles);
  });
});

describe('a decision record', () => {
  it.each(records)('%s has a context, a decision, consequences and measurements, in this order', (name) => {
    const sections = read(`docs/decisions/${name}`).split(/^## /m).slice(1);
    expect(sections.map((section) => section.split('\n', 1)[0])).toEqual([
      'Context',
      'Decision',
      'Consequences',
      'Measurements',
    ]);
    const empty = sections.filter((section) => section.replace(/^.*\n/, '').trim() === '');
    expect(empty).toEqual([]);
  });
});
