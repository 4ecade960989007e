import { hash } from 'node:crypto';
import { SHARD_COUNT } from './shards.ts';
import type { Uuid } from './values.ts';

/** Bytes of the digest that are compared; six fit exactly into a number. */
const WEIGHT_BYTES = 6;

const weightOf = (node: Uuid, shard: number): number =>
  hash('sha256', `${node}/${shard}`, 'buffer').readUIntBE(0, WEIGHT_BYTES);

/** A node that may own shards. */
interface PlaceableNode {
  id: Uuid;
  /** Highest data level that it can read. */
  dataLevel: number;
}

/**
 * The node that should own each shard, by rendezvous hashing (highest random weight) over the nodes that can read its
 * data level: a node that joins takes its shards evenly from all others, and those of a node that leaves go evenly to
 * all others. Null for a shard that no node can read. `levels`: the data level of each shard.
 */
export function placeShards(nodes: readonly PlaceableNode[], levels: readonly number[]): readonly (Uuid | null)[] {
  return Array.from({ length: SHARD_COUNT }, (_, shard) => {
    let best: Uuid | null = null;
    let most = -1;
    for (const { id, dataLevel } of nodes) {
      if (dataLevel < (levels[shard] ?? 0)) continue;
      const weight = weightOf(id, shard);
      if (weight < most || (weight === most && best !== null && id > best)) continue;
      best = id;
      most = weight;
    }
    return best;
  });
}
