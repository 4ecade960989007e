import type { OwnedShards } from '../../domain/shards.ts';
import type { SqlValue } from './database.ts';

/** The part of a statement that restricts it to shards. */
interface ShardCondition {
  /** Suffix of the statement's name: each form is prepared on its own. */
  suffix: string;
  /** Empty for all shards, else ` and …`. */
  condition: string;
  /** The values of its parameters. */
  values: SqlValue[];
}

const ALL: ShardCondition = { suffix: '', condition: '', values: [] };

/** `shard`: SQL of the shard. `parameter`: the number of the first parameter that is free. */
export const inShards = (shards: OwnedShards | undefined, shard: string, parameter: number): ShardCondition =>
  shards === null || shards === undefined
    ? ALL
    : {
        suffix: '_of_shards',
        condition: ` and ${shard} = any($${parameter}::smallint[])`,
        values: [shardArray(shards)],
      };

/** Array literal of shards, `{1,2}`. */
export const shardArray = (shards: Iterable<number>): string => `{${[...shards].join(',')}}`;
