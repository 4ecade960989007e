import { LocalShards } from '../actors/owned-shards.ts';
import type { Config } from '../config.ts';
import type { Log } from '../domain/log.ts';
import type { Uuid } from '../domain/values.ts';
import { LinkSockets } from '../edges/cluster/link-headers.ts';
import type { Cluster } from '../store/contract/cluster.ts';
import type { ActiveLock } from '../store/contract.ts';
import { openCluster } from '../store/open.ts';
import type { ActiveNodes } from './active-nodes.ts';

/** The nodes that the coordinator has read; this one alone until it reads them. */
class FollowedNodes implements ActiveNodes {
  readonly self: Uuid;
  #live: () => ReadonlySet<Uuid>;

  constructor(self: Uuid) {
    this.self = self;
    const alone = new Set([self]);
    this.#live = () => alone;
  }

  follow(live: () => ReadonlySet<Uuid>): void {
    this.#live = live;
  }

  readonly live = (): ReadonlySet<Uuid> => this.#live();
}

/** What a node among others has before its services are composed. */
export interface NodeMembership {
  cluster: Cluster;
  /** The shards whose actors run here; the coordinator adds and removes them. */
  shards: LocalShards;
  /** The nodes that are alive. */
  nodes: FollowedNodes;
  /** The connections from other nodes. */
  linkSockets: LinkSockets;
}

/** Null for a process that has the database to itself. `lock` is held. */
export function joinCluster({ node }: Pick<Config, 'node'>, lock: ActiveLock, log: Log): NodeMembership | null {
  if (node === null) return null;
  const cluster = openCluster(lock, log);
  return { cluster, shards: new LocalShards(), nodes: new FollowedNodes(cluster.self), linkSockets: new LinkSockets() };
}
