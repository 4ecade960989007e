import { LocalShards } from '../actors/owned-shards.ts';
import type { Config } from '../config.ts';
import type { Log } from '../domain/log.ts';
import { LinkSockets } from '../edges/cluster/link-headers.ts';
import type { Cluster } from '../store/contract/cluster.ts';
import type { ActiveLock } from '../store/contract.ts';
import { openCluster } from '../store/open.ts';

/** What a node among others has before its services are composed. */
export interface NodeMembership {
  cluster: Cluster;
  /** The shards whose actors run here; the coordinator adds and removes them. */
  shards: LocalShards;
  /** The connections from other nodes. */
  linkSockets: LinkSockets;
}

/** Null for a process that has the database to itself. `lock` is held. */
export function joinCluster({ node }: Pick<Config, 'node'>, lock: ActiveLock, log: Log): NodeMembership | null {
  if (node === null) return null;
  return { cluster: openCluster(lock, log), shards: new LocalShards(), linkSockets: new LinkSockets() };
}
