import type { Uuid } from '../../domain/values.ts';

/**
 * What a node does with shards: `joining` starts and owns none yet, `active` owns its part of them, `draining` hands
 * them over and ends.
 */
export type MembershipState = 'joining' | 'active' | 'draining';

/** A registered node that was not fenced. */
export interface ClusterNode {
  id: Uuid;
  /** Increases with each node. */
  number: number;
  /** Host and port of its HTTP server. */
  address: string;
  /** Host and port of its listener for other nodes; null until it listens. */
  link: string | null;
  /** Version of the program. */
  build: string;
  state: MembershipState;
  /** Epoch milliseconds. */
  startedAt: number;
  /** Whether its lock is held: false once its process has ended or lost its connection. */
  alive: boolean;
}

/** The nodes and the owners of the shards, as committed. */
export interface ClusterView {
  nodes: readonly ClusterNode[];
  /** By shard; null for a shard without an owner. An owner that is not in `nodes` was fenced. */
  owners: readonly (Uuid | null)[];
  /** True on one node at a time: it does what must not be done twice. */
  leader: boolean;
}

/** The nodes that share a database. Every method may throw `StoreUnavailable`. */
export interface Cluster {
  readonly self: Uuid;
  view(): Promise<ClusterView>;
  /** Tells the other nodes. */
  announce(state: MembershipState, link: string): Promise<void>;
  /** Raises the epochs of nodes that are not alive, and resolves when none of their database sessions is left. */
  fence(nodes: readonly Uuid[]): Promise<void>;
  /** Becomes the owner of those shards that have none or a fenced one. */
  claim(shards: readonly number[]): Promise<void>;
  /** Gives shards of this node to another one. Nothing of them may be running here. */
  handOver(shards: readonly number[], to: Uuid): Promise<void>;
  /** Calls `listener` when a node or an owner may have changed, sooner than the next `view` would show it. */
  onChange(listener: () => void): void;
}
