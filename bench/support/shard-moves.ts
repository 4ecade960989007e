import type { Log } from '../../src/domain/log.ts';

/** A group of shards that a node has handed over or opened. */
export interface ShardMove {
  what: 'handed over' | 'opened';
  shards: number;
  /** How long that took, in milliseconds. */
  ms: number;
  /** When it ended, in epoch milliseconds. */
  at: number;
}

const PREFIX = 'shard coordinator: shards ';

/** In a process with a node: records its moves, and reports and forgets them on request. */
export function recordShardMoves(log: Log): Log {
  let moves: ShardMove[] = [];
  process.on('message', (message: { moves?: true }) => {
    if (!message.moves) return;
    process.send?.({ moves });
    moves = [];
  });
  return {
    debug: (...entry) => log.debug(...entry),
    warn: (...entry) => log.warn(...entry),
    error: (...entry) => log.error(...entry),
    info(fields, text) {
      const what = text.startsWith(PREFIX) ? text.slice(PREFIX.length) : '';
      if (what === 'handed over' || what === 'opened') {
        const { shards, ms } = fields as { shards: number; ms: number };
        moves.push({ what, shards, ms, at: performance.timeOrigin + performance.now() });
      }
      log.info(fields, text);
    },
  };
}
