import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { clientSettingsTable, settingsTable } from '../src/config/settings.ts';

const page = readFileSync(new URL('../docs/configuration.md', import.meta.url), 'utf8');
const variables = [...page.matchAll(/^\| `([A-Z_]+)` \| (.*) \| (.*) \|$/gm)].map(([, name, fallback, meaning]) => ({
  name,
  fallback,
  meaning,
}));

describe('docs/configuration.md', () => {
  it('lists all settings in their order, with their defaults', () => {
    expect(variables).toEqual([...settingsTable, ...clientSettingsTable]);
  });
});
