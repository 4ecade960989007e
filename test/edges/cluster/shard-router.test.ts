import { describe, expect, it } from 'vitest';
import type { PeerNode, ShardDirectory, ShardRoute } from '../../../src/domain/shards.ts';
import { ShardRouter } from '../../../src/edges/cluster/shard-router.ts';

const one: PeerNode = { id: '1', address: 'one:7400' };
const two: PeerNode = { id: '2', address: 'two:7400' };
const NOWHERE: ShardRoute = { at: 'none' };
const at = (node: PeerNode): ShardRoute => ({ at: 'node', node });

/** A directory that answers with these routes one after another; the last one stays. */
function directoryOf(routes: readonly ShardRoute[]): ShardDirectory & { refreshes: number } {
  let next = 0;
  return {
    refreshes: 0,
    enter: () => routes[Math.min(next++, routes.length - 1)] as ShardRoute,
    async refresh() {
      this.refreshes += 1;
    },
  };
}

/** Routes with attempts that have these outcomes; the last one stays. */
async function route(directory: ShardDirectory, outcomes: readonly ('done' | 'again')[], retryMs = 8_000) {
  const calls: string[] = [];
  const isRouted = await new ShardRouter(directory, retryMs).route(3, {
    here: (leave, attempts) => {
      calls.push(`here after ${attempts}`);
      leave();
    },
    there: async (node) => {
      calls.push(node.id);
      return outcomes[Math.min(calls.length, outcomes.length) - 1] as 'done' | 'again';
    },
  });
  return { isRouted, calls };
}

describe('a shard', () => {
  it('of this node is served here', async () => {
    let left = 0;
    const here: ShardRoute = { at: 'here', leave: () => void left++ };
    expect(await route(directoryOf([here]), [])).toEqual({ isRouted: true, calls: ['here after 0'] });
    expect(left).toBe(1);
  });

  it('without an owner is served nowhere', async () => {
    expect(await route(directoryOf([NOWHERE]), [])).toEqual({ isRouted: false, calls: [] });
  });

  it('whose owner was read too early is served by the new one, after another reading', async () => {
    const directory = directoryOf([at(one), at(two)]);
    expect(await route(directory, ['again', 'done'])).toEqual({ isRouted: true, calls: ['1', '2'] });
    expect(directory.refreshes).toBe(1);
  });

  it('is served by its owner as soon as that one answers', async () => {
    const outcomes = ['again', 'again', 'again', 'done'] as const;
    expect(await route(directoryOf([at(one)]), outcomes)).toEqual({ isRouted: true, calls: ['1', '1', '1', '1'] });
  });

  it('is served here when this node has become the owner', async () => {
    const directory = directoryOf([at(one), at(one), at(one), { at: 'here', leave: () => {} }]);
    expect((await route(directory, ['again'])).calls.at(-1)).toBe('here after 2');
  });

  it('is served by a node with the same id and another address, as a new one', async () => {
    const moved = { ...one, address: 'elsewhere:7400' };
    expect(await route(directoryOf([at(one), at(moved)]), ['again', 'done'])).toMatchObject({ isRouted: true });
  });

  it('is given up after the time limit, also while the owners are being read', async () => {
    expect(await route(directoryOf([at(one)]), ['again'], 0)).toEqual({ isRouted: false, calls: ['1'] });
    const silent = { ...directoryOf([at(one)]), refresh: () => new Promise<void>(() => {}) };
    expect(await route(silent, ['again'], 20)).toEqual({ isRouted: false, calls: ['1'] });
    expect((await route(directoryOf([at(one)]), ['again'], 50)).isRouted).toBe(false);
  });
});
