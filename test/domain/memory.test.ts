import { expect, it } from 'vitest';
import {
  addShapingMemories,
  INVISIBLE_CHARACTER,
  isSuggestion,
  MAX_SHAPING_MEMORIES,
  type Memory,
  memoryAuthorOf,
  memorySourceOf,
  memoryWriterOf,
  steeringAuthority,
} from '../../src/domain/memory.ts';
import type { Scope } from '../../src/domain/scopes.ts';
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

const by = (more: object) => ({ by: { kind: 'user' as const, id: 'u', ...more }, scopes: null });
const person = by({ person: true, via: 'rest' });

it.each<[string, Pick<Memory, 'writer' | 'source'>, string]>([
  ['a person', { writer: person, source: 'user:u' }, 'person'],
  ['a key', { writer: by({ person: false, key: 'k' }), source: 'key:k' }, 'key'],
  ['a token at /mcp', { writer: by({ person: false, via: 'mcp' }), source: 'user:u' }, 'program'],
  ['a token that was presented at /mcp', { writer: by({ person: false, via: 'rest' }), source: 'user:u' }, 'program'],
  ['a user, not recorded', { writer: null, source: 'user:u' }, 'person'],
  ['a key, not recorded', { writer: null, source: 'key:k' }, 'key'],
  ['another source, not recorded', { writer: null, source: 'twinkeep' }, 'unknown'],
])('the writer of a memory is %s', (_, memory, writer) => {
  expect(memoryWriterOf(memory)).toBe(writer);
  const routine = { ...memory, kind: 'routine', adoption: null } as const;
  expect(isSuggestion(routine)).toBe(writer !== 'person');
  expect(isSuggestion({ ...routine, kind: 'observation' })).toBe(false);
  const adoption = { ...by({ id: 'other', person: true }), at: 1 };
  expect([isSuggestion({ ...routine, adoption }), steeringAuthority({ ...routine, adoption })]).toEqual([
    false,
    adoption,
  ]);
});

it('a routine of a person whose token may not send commands is a suggestion', () => {
  const routine = { kind: 'routine', adoption: null, source: 'user:u' } as const;
  const written = (scopes: Scope[] | null) => isSuggestion({ ...routine, writer: { ...person, scopes } });
  expect([written(null), written(['execute:*']), written(['write:memory'])]).toEqual([false, false, true]);
});

it('a memory of a user without a recorded writer steers with all scopes of the role', () => {
  expect(steeringAuthority({ writer: null, adoption: null, source: 'user:u' })).toEqual(by({}));
});

it('a memory counts under the credential that adopted it, else under its writer, else under its source', () => {
  const memory = { writer: person, adoption: null, source: 'user:u' };
  expect(memoryAuthorOf(memory)).toEqual(person);
  expect(memoryAuthorOf({ ...memory, adoption: { ...by({ id: 'other' }), at: 7 } })).toEqual(by({ id: 'other' }));
  expect(memoryAuthorOf({ ...memory, writer: null })).toBe('user:u');
});

it('the memories of a plan name their steps once, up to a maximum', () => {
  const memory = (id: string) => ({ id, kind: 'routine', subject: null, source: 'user:u', adoptedBy: null }) as const;
  const one = addShapingMemories([], 'a', [memory('1'), memory('2')]);
  const two = addShapingMemories(addShapingMemories(one, 'b', [memory('2')]), 'b', [memory('2')]);
  expect(two.map(({ id, steps }) => [id, steps])).toEqual([
    ['1', ['a']],
    ['2', ['a', 'b']],
  ]);
  const many = Array.from({ length: MAX_SHAPING_MEMORIES + 1 }, (_, n) => memory(`m${n}`));
  expect(addShapingMemories(two, 'c', many)).toHaveLength(MAX_SHAPING_MEMORIES);
});
