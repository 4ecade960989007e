import type { Uuid } from './values.ts';

/** Number of shards: sets of tenants, each with one owner at a time. */
export const SHARD_COUNT = 256;

/**
 * The shard of a tenant, from 0 to 255: the last byte of its id, which is random (RFC 9562 §5.7).
 */
export const shardOf = (tenantId: Uuid): number => Number.parseInt(tenantId.slice(-2), 16);

/** The same shard as an SQL expression; `tenantId` is an expression of type uuid. */
export const shardInSql = (tenantId: string): string => `get_byte(uuid_send(${tenantId}), 15)::smallint`;

/** The shards that this process owns; null: all. */
export type OwnedShards = readonly number[] | null;

/** An active node as other nodes reach it. */
export interface PeerNode {
  id: Uuid;
  /** Host and port of its listener for other nodes. */
  address: string;
}

/**
 * The place where a request of a shard runs. `here` counts the request as in progress until `leave` is called: the
 * shard is handed over only after that. `none`: the shard has no owner that this node knows of; try again later.
 */
export type ShardRoute = { at: 'here'; leave(): void } | { at: 'node'; node: PeerNode } | { at: 'none' };

/** Routes requests and connections to the owners of their shards. */
export interface ShardDirectory {
  /** A promise only while the shard moves; it resolves within two seconds. */
  enter(shard: number): ShardRoute | Promise<ShardRoute>;
  /** Reads the owners again, after a node has answered that it is not the owner. */
  refresh(): Promise<void>;
}
