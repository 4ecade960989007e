import { expect, it } from 'vitest';
import { INVISIBLE_CHARACTER, memorySourceOf } from '../../src/domain/memory.ts';
import { SYSTEM } from '../../src/domain/values.ts';

it('the author of a memory is the key that wrote it, else the user, else the part of the service', () => {
  expect(memorySourceOf({ kind: 'user', id: 'u', key: 'k7qx2m4d' })).toBe('key:k7qx2m4d');
  expect(memorySourceOf({ kind: 'user', id: 'u', via: 'mcp' })).toBe('user:u');
  expect(memorySourceOf(SYSTEM)).toBe('twinkeep');
});

it.each([
  ['a bell', '\u0007', true],
  ['an escape', '\u001b[2J', true],
  ['a C1 control', '\u009b', true],
  ['DEL', '\u007f', true],
  ['hidden ASCII', 'lights\u{e0069}\u{e0067}', true],
  ['lines and tabs', 'a\n\tb', false],
  ['joined emoji and accents', '👩‍🚀 é नमस्ते می‌خواهم', false],
])('%s is checked for invisible characters', (_, text, unseen) => {
  expect(INVISIBLE_CHARACTER.test(text)).toBe(unseen);
});
