import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { MARK } from '../../../../src/edges/rest/sign-in/mark.ts';
import { STYLE } from '../../../../src/edges/rest/sign-in/style.ts';

const read = (path: string): string => readFileSync(new URL(`../../../../${path}`, import.meta.url), 'utf8');

/** Custom properties of the light colours and, where a rule for dark screens has them, of the dark ones. */
function colours(style: string): Record<'light' | 'dark', Record<string, string>> {
  const [light = '', dark = ''] = style.split('@media (prefers-color-scheme: dark)');
  const inFirstRule = (text: string) =>
    Object.fromEntries(
      [...text.slice(0, text.indexOf('}')).matchAll(/(--[a-z-]+): ([^;]+);/g)].map(([, name = '', value = '']) => [
        name,
        value.replace(/^#(.)(.)(.)$/, '#$1$1$2$2$3$3'),
      ]),
    );
  return { light: inFirstRule(light), dark: inFirstRule(dark) };
}

const console_ = colours(read('console/src/style.css'));

describe.each([
  ['the sign-in pages', STYLE],
  ['the API reference', read('reference/src/frame.css')],
])('%s', (_, style) => {
  it.each(['light', 'dark'] as const)('have the %s colours of the console', (scheme) => {
    const used = colours(style)[scheme];
    expect(Object.keys(used)).toEqual(
      expect.arrayContaining(['--ground', '--panel', '--text', '--accent', '--on-accent']),
    );
    expect(console_[scheme]).toMatchObject(used);
  });
});

it('is the mark of the console', () => {
  expect(MARK).toBe(read('console/src/icon.svg'));
});
