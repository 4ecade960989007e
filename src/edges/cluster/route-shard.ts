import type { PeerNode, ShardDirectory, ShardRoute } from '../../domain/shards.ts';

/** The result of sending something to another node once; `again`: it was not executed there. */
export type Attempt = 'done' | 'again';

/**
 * Routes to the owner of a shard: calls `here` or `there`. If the node was not the owner or could not be reached, reads
 * the owners again and tries the new one, once. False if there is none: nothing was called, or nothing was executed.
 */
export async function routeShard(
  directory: ShardDirectory,
  shard: number,
  {
    here,
    there,
  }: {
    /** `attempts`: how often `there` was called before. */
    here(leave: () => void, attempts: number): void | Promise<void>;
    there(node: PeerNode): Promise<Attempt>;
  },
): Promise<boolean> {
  let tried: PeerNode | null = null;
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const route: ShardRoute = await directory.enter(shard);
    if (route.at === 'none') return false;
    if (route.at === 'here') {
      await here(() => route.leave(), attempt);
      return true;
    }
    if (tried !== null && tried.id === route.node.id && tried.address === route.node.address) return false;
    if ((await there(route.node)) === 'done') return true;
    tried = route.node;
    if (attempt === 0) await directory.refresh();
  }
  return false;
}
