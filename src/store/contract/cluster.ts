import type { MasterKeyIds } from '../../domain/sealing.ts';
import type { Milliseconds, Uuid } from '../../domain/values.ts';

/**
 * What a node does with shards: `joining` starts and owns none yet, `active` owns its part of them, `draining` hands
 * them over at an operator's request and goes on serving connections, `stopping` hands them over and ends.
 */
export const membershipStates = ['joining', 'active', 'draining', 'stopping'] as const;
export type MembershipState = (typeof membershipStates)[number];

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
  /** Newest migration that its build knows. */
  schemaLevel: number;
  /** Newest stored form of actors that its build can read. */
  dataLevel: number;
  state: MembershipState;
  /** Epoch milliseconds. */
  startedAt: number;
  /** Whether its lock is held: false once its process has ended or lost its connection. */
  alive: boolean;
}

/** Load of one process. */
export interface NodeLoad {
  /** Actors in memory. */
  liveActors: number;
  /** Open device sessions. */
  deviceSessions: number;
  /** Processor time in relation to one core, 1 for one core. */
  cpuShare: number;
  heapBytes: number;
  rssBytes: number;
  /** 99th percentile of the delay of the event loop, in milliseconds. */
  eventLoopDelayMs: number;
}

/** What a node publishes every few seconds. */
export interface NodeFigures {
  load: NodeLoad;
  /** Missing for builds that do not publish them. */
  masterKeys?: MasterKeyIds;
  /** Shards that the node has opened since its start. */
  opened: number;
  /** Shards that the node has handed over since its start. */
  handedOver: number;
}

/** A live node with its latest figures. */
export interface ReportedNode extends ClusterNode {
  /** Null until the node has published them. */
  figures: NodeFigures | null;
  /** Milliseconds since the node's lease was renewed, as far as it has published it; null if that is unknown. */
  leaseAgeMs: Milliseconds | null;
}

/** The live nodes, and the owners and data levels of the shards. */
export interface NodesReport extends Pick<ClusterView, 'owners' | 'levels'> {
  nodes: readonly ReportedNode[];
}

/**
 * Result of an operator's request to drain or to resume a node. `wrong state`: the node is joining or stopping. `last
 * active`: no other node is active.
 */
export type DrainResult = 'done' | 'not found' | 'wrong state' | 'last active';

/** The nodes of a database as operators see and control them. Every method may throw `StoreUnavailable`. */
export interface NodeAdministration {
  report(): Promise<NodesReport>;
  /** The node hands over its shards and gets no others until it is resumed. A repeat is `done`. */
  drain(node: Uuid): Promise<DrainResult>;
  /** Ends a drain. A repeat is `done`. */
  resume(node: Uuid): Promise<DrainResult>;
}

/** The nodes and the owners of the shards, as committed. */
export interface ClusterView {
  nodes: readonly ClusterNode[];
  /** By shard; null for a shard without an owner. An owner that is not in `nodes` was fenced. */
  owners: readonly (Uuid | null)[];
  /** By shard: highest data level of the nodes that have owned it; 0 for a shard that never had an owner. */
  levels: readonly number[];
  /** True on one node at a time: it does what must not be done twice. */
  leader: boolean;
}

/** The nodes that share a database. Every method may throw `StoreUnavailable`. */
export interface Cluster extends NodeAdministration {
  readonly self: Uuid;
  view(): Promise<ClusterView>;
  /** Tells the other nodes. */
  announce(state: MembershipState, link: string): Promise<void>;
  /** Stores this node's figures. `leaseAgeMs`: since its lease was renewed. */
  publish(figures: NodeFigures, leaseAgeMs: Milliseconds): Promise<void>;
  /** Raises the epochs of nodes that are not alive, and resolves when none of their database sessions is left. */
  fence(nodes: readonly Uuid[]): Promise<void>;
  /** Becomes the owner of those shards that have none or a fenced one, and whose data level its build can read. */
  claim(shards: readonly number[]): Promise<void>;
  /**
   * Gives shards of this node to another one, except those whose data level it cannot read. Nothing of them may be
   * running here.
   */
  handOver(shards: readonly number[], to: Uuid): Promise<void>;
  /** Calls `listener` when a node or an owner may have changed, sooner than the next `view` would show it. */
  onChange(listener: () => void): void;
}
