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

it('a head is a sequence number and a hash', () => {
  const place = { sequence: 12, hash: 'ab'.repeat(32) };
  expect(parseHead(headText(place))).toEqual(place);
  for (const text of ['', '12', `-1:${place.hash}`, `01:${place.hash}`, `12:${place.hash}0`, `12:${'AB'.repeat(32)}`])
    expect(parseHead(text)).toBeNull();
});
