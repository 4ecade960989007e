import { readTokenKey } from '../../src/config.ts';
import { issueToken } from '../../src/main.ts';
import { PLATFORM_SCOPE } from '../../src/services/tokens.ts';
import { checkLimit, formatLatencies, percentile } from '../support/figures.ts';
import type { RunningService } from '../support/service.ts';
import type { ShardMove } from '../support/shard-moves.ts';
import type { NodeGroup } from './node-group.ts';

const AT_MOST_MS = 100;
/** How long the last shards may take to be opened after they have a new owner. */
const OPEN_TIMEOUT_MS = 10_000;

/** Drains one of two nodes and resumes it, `rounds` times, without any connection of a client. */
export async function measureMoves(group: NodeGroup, rounds: number, short: boolean): Promise<void> {
  const [drained, other] = group.nodes as [RunningService, RunningService];
  const token = await issueToken(readTokenKey(group.deployment.env), { sub: 'operator', scope: PLATFORM_SCOPE });
  const call = async (method: string, path: string) => {
    const answer = await fetch(`http://127.0.0.1:${other.port}/v1/admin/nodes${path}`, {
      method,
      headers: { authorization: `Bearer ${token}` },
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as { nodes: { id: string; address: string; shards: number }[] };
  };
  const find = async () => {
    const { nodes } = await call('GET', '');
    const found = nodes.find(({ address }) => address.endsWith(`:${drained.port}`));
    if (found === undefined) throw new Error('the node is not listed');
    return found;
  };
  const { id } = await find();
  await Promise.all([drained, other].map(movesOf));
  const times: number[] = [];
  for (let n = 0; n < rounds; n += 1) {
    await call('POST', `/${id}/drain`);
    while ((await find()).shards > 0) await new Promise((resolve) => setTimeout(resolve, 100));
    await call('POST', `/${id}/resume`);
    await group.whenPlaced();
    times.push(...(await completeTimes(drained, other)));
  }
  console.log(`a shard that moves without connections cannot be used for: ${formatLatencies(times)}`);
  checkLimit('  p99', percentile(times, 99), { atMost: AT_MOST_MS, unit: 'ms', short });
}

/** The times of all moves since the last call, when every shard that was handed over has been opened. */
async function completeTimes(one: RunningService, other: RunningService): Promise<number[]> {
  const moves = new Map<RunningService, ShardMove[]>([one, other].map((node) => [node, []]));
  for (const until = performance.now() + OPEN_TIMEOUT_MS; ; ) {
    for (const [node, all] of moves) all.push(...(await movesOf(node)));
    const [ofOne = [], ofOther = []] = moves.values();
    const times = [movingTimes(ofOne, ofOther), movingTimes(ofOther, ofOne)];
    if (times.every((found) => found !== null)) return times.flatMap((found) => found ?? []);
    if (performance.now() > until) throw new Error('shards were handed over and not opened');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function movesOf({ child }: RunningService): Promise<ShardMove[]> {
  child.send({ moves: true });
  return child.receive<ShardMove[]>('moves');
}

/**
 * For each shard, the time from when its owner begins to close it until the other node has opened it; null while some are
 * not open. A node opens shards in the order in which they were handed over, but not in the same groups, and it may have
 * opened them before the owner records that it handed them over.
 */
function movingTimes(owner: readonly ShardMove[], other: readonly ShardMove[]): number[] | null {
  const began = timesByShard(owner, 'handed over', ({ at, ms }) => at - ms);
  const opened = timesByShard(other, 'opened', ({ at }) => at);
  return began.length === opened.length ? opened.map((at, n) => at - (began[n] as number)) : null;
}

const timesByShard = (
  moves: readonly ShardMove[],
  wanted: ShardMove['what'],
  timeOf: (move: ShardMove) => number,
): number[] =>
  moves
    .filter(({ what }) => what === wanted)
    .flatMap((move) => Array.from({ length: move.shards }, () => timeOf(move)));
