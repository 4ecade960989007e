import { describe, expect, it } from 'vitest';
import { placeShards } from '../../src/domain/shard-placement.ts';
import { SHARD_COUNT } from '../../src/domain/shards.ts';

const nodes = Array.from({ length: 4 }, (_, n) => `0195d9a2-7f00-7000-8000-0000000000${n}0`);

describe('the placement of shards', () => {
  it('is empty without nodes', () => {
    expect(placeShards([])).toEqual([]);
  });

  it('gives all shards to a single node', () => {
    expect(new Set(placeShards(nodes.slice(0, 1)))).toEqual(new Set([nodes[0]]));
  });

  it('does not depend on the order of the nodes', () => {
    expect(placeShards([...nodes].reverse())).toEqual(placeShards(nodes));
  });

  it('gives every node a share', () => {
    const placed = placeShards(nodes);
    for (const node of nodes) {
      expect(placed.filter((owner) => owner === node).length).toBeGreaterThan(SHARD_COUNT / nodes.length / 2);
    }
  });

  it('moves only shards of the node that leaves', () => {
    const before = placeShards(nodes);
    const after = placeShards(nodes.slice(1));
    for (const [shard, owner] of before.entries()) {
      if (owner !== nodes[0]) expect(after[shard]).toBe(owner);
      else expect(nodes.slice(1)).toContain(after[shard]);
    }
  });

  it('moves shards only to the node that joins', () => {
    const before = placeShards(nodes.slice(0, 3));
    for (const [shard, owner] of placeShards(nodes).entries()) {
      if (owner !== before[shard]) expect(owner).toBe(nodes[3]);
    }
  });
});
