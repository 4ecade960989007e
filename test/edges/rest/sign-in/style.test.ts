import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { MARK } from '../../../../src/edges/rest/sign-in/mark.ts';
import { STYLE } from '../../../../src/edges/rest/sign-in/style.ts';

const read = (path: string): string => readFileSync(new URL(`../../../../${path}`, import.meta.url), 'utf8');

const LIGHT_DARK = /light-dark\(((?:[^(),]|\([^)]*\))+), ((?:[^()]|\([^)]*\))+)\)/g;

/** Custom properties of the light and of the dark colours, from `light-dark` or from a rule for dark screens. */
function colours(style: string): Record<'light' | 'dark', Record<string, string>> {
  const [light = '', dark = ''] = style.includes('light-dark(')
    ? [style.replace(LIGHT_DARK, '$1'), style.replace(LIGHT_DARK, '$2')]
    : style.split('@media (prefers-color-scheme: dark)');
  const inFirstRule = (text: string) =>
    Object.fromEntries(
      [...text.slice(0, text.indexOf('}')).matchAll(/(--[a-z-]+):\s+([^;]+);/g)].map(([, name = '', value = '']) => [
        name,
        value.replace(/\s+/g, ' ').replace(/^#(.)(.)(.)$/, '#$1$1$2$2$3$3'),
      ]),
    );
  return { light: inFirstRule(light), dark: inFirstRule(dark) };
}

const console_ = colours(read('console/src/shared.css'));

describe('the sign-in pages', () => {
  it.each(['light', 'dark'] as const)('have the %s colours of the console', (scheme) => {
    const used = colours(STYLE)[scheme];
    expect(Object.keys(used)).toEqual(
      expect.arrayContaining(['--ground', '--panel', '--text', '--accent', '--on-accent']),
    );
    expect(console_[scheme]).toMatchObject(used);
  });
});

it('is the mark of the console', () => {
  expect(MARK).toBe(read('console/src/icon.svg'));
});
