import { expect, it } from 'vitest';
import { blockHash, extendDigest, GENESIS_HASH, headText, parseHead } from '../../src/domain/audit-chain.ts';

it('a digest depends on each entry, its position and their order', () => {
  const digest = (...entries: [number, string][]) =>
    entries.reduce((before, [position, content]) => extendDigest(before, position, [content]), GENESIS_HASH);
  const all = [digest([1, 'a'], [2, 'b']), digest([1, 'b'], [2, 'a']), digest([1, 'a'], [3, 'b']), digest([1, 'a'])];
  expect(new Set(all).size).toBe(4);
  expect(extendDigest(GENESIS_HASH, 1, [{ a: 1, b: 2 }])).toBe(extendDigest(GENESIS_HASH, 1, [{ b: 2, a: 1 }]));
});

it('the hash of a block depends on each member', () => {
  const header = {
    ...{ tenantId: null, sequence: 1, position: 9, entries: 2, firstAt: 5, lastAt: 6, digest: 'd', previous: 'p' },
  };
  const changed = Object.keys(header).map((member) => blockHash({ ...header, [member]: 'x' }));
  expect(new Set([blockHash(header), ...changed]).size).toBe(9);
});

it('a head is a sequence number, a hash and, if it was kept with it, a time', () => {
  const place = { sequence: 12, hash: 'ab'.repeat(32) };
  for (const head of [
    { ...place, lastAt: null },
    { ...place, lastAt: 1_772_366_400_000 },
    { ...place, lastAt: 0, continues: true },
  ]) {
    expect(parseHead(headText(head))).toEqual(head);
  }
  const text = `12:${place.hash}`;
  expect(headText({ ...place, lastAt: 5 })).toBe(`${text}:5`);
  for (const wrong of [
    '',
    '12',
    `-${text}`,
    `0${text}`,
    `${text}0`,
    text.toUpperCase(),
    `${text}:`,
    `${text}:-1`,
    `${text}:next`,
  ])
    expect(parseHead(wrong)).toBeNull();
});
