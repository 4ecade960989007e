import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { refusals } from '../src/domain/refusals.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const page = readFileSync(join(root, 'docs/operations.md'), 'utf8');
const source = globSync('src/**/*.ts', { cwd: root })
  .map((file) => readFileSync(join(root, file), 'utf8'))
  .join('\n');

describe('docs/operations.md', () => {
  it('names metrics that the service has', () => {
    const names = [...page.matchAll(/\btwinkeep_(\w+)/g)].map(([, name = '']) => name.replace(/_total$/, ''));
    expect(names.length).toBeGreaterThan(20);
    expect(names.filter((name) => !source.includes(`'${name}'`) && !source.includes(`}${name}\``))).toEqual([]);
  });

  it('quotes messages as the service writes them', () => {
    const rows = page.slice(page.indexOf('| symptom |'), page.indexOf('### A full disk')).split('\n');
    const quoted = rows.flatMap((row) =>
      [...(row.split('|')[2] ?? '').matchAll(/`([^`]+)`/g)].map(([, text = '']) => text),
    );
    const messages = quoted.filter((text) => text.includes(' ') && !/^(GET|POST) /.test(text));
    expect(messages.length).toBeGreaterThan(12);
    const parts = messages.flatMap((message) => message.split('…')).map((part) => part.trim().replace(/^PORT /, ''));
    expect(parts.filter((part) => !source.includes(part))).toEqual([]);
  });

  it('names refusals that there are', () => {
    const codes = [...page.matchAll(/\b(?:503|429) `([A-Z_]+)`/g)].map(([, code]) => code as string);
    expect(codes.length).toBeGreaterThan(4);
    expect(codes.filter((code) => !Object.hasOwn(refusals, code))).toEqual([]);
  });
});
