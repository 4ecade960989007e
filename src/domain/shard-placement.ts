import { hash } from 'node:crypto';
import { SHARD_COUNT } from './shards.ts';
import type { Uuid } from './values.ts';

/** Bytes of the digest that are compared; six fit exactly into a number. */
const WEIGHT_BYTES = 6;

const weightOf = (node: Uuid, shard: number): number =>
  hash('sha256', `${node}/${shard}`, 'buffer').readUIntBE(0, WEIGHT_BYTES);

/**
 * The node that should own each shard, by rendezvous hashing (highest random weight): a node that joins takes its
 * shards evenly from all others, and those of a node that leaves go evenly to all others. Empty without nodes.
 */
export function placeShards(nodes: readonly Uuid[]): readonly Uuid[] {
  if (nodes.length === 0) return [];
  return Array.from({ length: SHARD_COUNT }, (_, shard) => {
    const [first, ...others] = nodes as [Uuid, ...Uuid[]];
    let best = first;
    let most = weightOf(first, shard);
    for (const node of others) {
      const weight = weightOf(node, shard);
      if (weight < most || (weight === most && node < best)) continue;
      best = node;
      most = weight;
    }
    return best;
  });
}
