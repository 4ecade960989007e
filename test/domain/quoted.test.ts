import { expect, it } from 'vitest';
import { quoted } from '../../src/domain/quoted.ts';

it.each([
  ['open_gate', "'open_gate'"],
  ['ü 𝄞 ✓', "'ü 𝄞 ✓'"],
  ["it' is safe", "'it? is safe'"],
  ['“a” ‘b’ "c"', "'?a? ?b? ?c?'"],
  ['a\u{e0041}b\u{e0100}', "'a?b?'"],
  ['a\nb\u0000\u202e\u2028\u200bc', "'a?b????c'"],
  ['x'.repeat(60), `'${'x'.repeat(60)}'`],
  ['x'.repeat(61), `'${'x'.repeat(59)}…'`],
  ['𝄞'.repeat(61), `'${'𝄞'.repeat(59)}…'`],
])('%j is quoted without characters that change how a sentence reads', (text, expected) => {
  expect(quoted(text)).toBe(expected);
});
