import { describe, expect, it } from 'vitest';
import { placeShards } from '../../src/domain/shard-placement.ts';
import { SHARD_COUNT } from '../../src/domain/shards.ts';

const nodes = Array.from({ length: 4 }, (_, n) => `0195d9a2-7f00-7000-8000-0000000000${n}0`);
const atLevel = (ids: readonly string[], dataLevel = 1) => ids.map((id) => ({ id, dataLevel }));
const levels = Array.from({ length: SHARD_COUNT }, () => 1);
const place = (ids: readonly string[]) => placeShards(atLevel(ids), levels);

describe('the placement of shards', () => {
  it('is null without nodes', () => {
    expect(new Set(place([]))).toEqual(new Set([null]));
  });

  it('gives all shards to a single node', () => {
    expect(new Set(place(nodes.slice(0, 1)))).toEqual(new Set([nodes[0]]));
  });

  it('does not depend on the order of the nodes', () => {
    expect(place([...nodes].reverse())).toEqual(place(nodes));
  });

  it('gives every node a share', () => {
    const placed = place(nodes);
    for (const node of nodes) {
      expect(placed.filter((owner) => owner === node).length).toBeGreaterThan(SHARD_COUNT / nodes.length / 2);
    }
  });

  it('moves only shards of the node that leaves', () => {
    const before = place(nodes);
    const after = place(nodes.slice(1));
    for (const [shard, owner] of before.entries()) {
      if (owner !== nodes[0]) expect(after[shard]).toBe(owner);
      else expect(nodes.slice(1)).toContain(after[shard]);
    }
  });

  it('moves shards only to the node that joins', () => {
    const before = place(nodes.slice(0, 3));
    for (const [shard, owner] of place(nodes).entries()) {
      if (owner !== before[shard]) expect(owner).toBe(nodes[3]);
    }
  });

  it('gives a shard only to nodes that can read its data level', () => {
    const mixed = levels.map((_, shard) => 1 + (shard % 2));
    const placed = placeShards([...atLevel(nodes.slice(0, 2), 1), ...atLevel(nodes.slice(2), 2)], mixed);
    const onAll = place(nodes);
    for (const [shard, owner] of placed.entries()) {
      if (shard % 2 === 0) expect(owner).toBe(onAll[shard]);
      else expect(nodes.slice(2)).toContain(owner);
    }
    expect(placeShards(atLevel(nodes, 1), mixed).filter((owner) => owner === null)).toHaveLength(SHARD_COUNT / 2);
  });
});
