import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { clientSettingsTable, settingsTable } from '../src/config/settings.ts';

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
const variables = [...readme.matchAll(/^\| `([A-Z_]+)` \| (.*) \| (.*) \|$/gm)].map(([, name, fallback, meaning]) => ({
  name,
  fallback,
  meaning,
}));

describe('the README', () => {
  it('lists exactly the settings there are, with their defaults', () => {
    expect(variables).toEqual([...settingsTable, ...clientSettingsTable]);
  });

  it('links only to files that exist', () => {
    const links = [...readme.matchAll(/\]\((?!https?:)([^)#]+)\)/g)].map(([, path]) => path as string);
    expect(links.length).toBeGreaterThan(5);
    for (const link of links) expect(existsSync(new URL(`../${link}`, import.meta.url)), link).toBe(true);
  });
});
