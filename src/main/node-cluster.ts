import type { RequestListener } from 'node:http';
import type { Config } from '../config.ts';
import type { CollectionSizes, SizeReporter } from '../domain/collection-sizes.ts';
import { shardOf } from '../domain/shards.ts';
import type { Milliseconds, Uuid } from '../domain/values.ts';
import { ClusterEdge } from '../edges/cluster/edge.ts';
import { deriveLinkKeys } from '../edges/cluster/link-handshake.ts';
import { TenantHints } from '../edges/cluster/tenant-hints.ts';
import { defaultSocketLimits } from '../edges/graphql/socket-limits.ts';
import type { MqttEdge } from '../edges/mqtt/edge.ts';
import { defaultMqttLimits } from '../edges/mqtt/mqtt-limits.ts';
import { clientAddress } from '../edges/shared/client-address.ts';
import type { CognitiveLayer } from '../operations/cognition/cognition.ts';
import { ShardCoordinator, type ShardHost } from '../services/shard-coordinator.ts';
import type { EdgeParts, HttpEdges } from './compose-edges.ts';
import type { NodeMembership } from './node-membership.ts';

/** How long operations in progress may take before their shard is handed over; uploads are then interrupted. */
const OPERATIONS_MS: Milliseconds = 250;
/** How long the actors of a shard may take to become idle before the shard is handed over. */
const UNLOAD_MS: Milliseconds = 500;
/** The same for messages of its devices that were read. Together these times are shorter than a request waits. */
const MESSAGES_MS: Milliseconds = 500;
/** How long the database may take to answer before a shard is handed over. */
const PING_MS: Milliseconds = 2_000;
/** How long all shards may take when the process stops: the rest of the 10 s is for its other work. */
const DRAIN_MS: Milliseconds = 4_000;
/** Interval at which the figures of this node are stored. */
const PUBLISH_MS: Milliseconds = 3_000;

interface NodeClusterParts extends EdgeParts {
  membership: NodeMembership;
  address: NonNullable<Config['node']>;
  edges: HttpEdges;
  cognition: CognitiveLayer;
  /** Null until the MQTT edge is open. */
  mqtt(): MqttEdge | null;
  /** Serves an upgrade on this node. */
  upgrade: MqttEdge['upgrade'];
}

/** Runs the shards of this node, and routes requests and connections to the nodes that own their tenants. */
export class NodeCluster implements SizeReporter {
  readonly coordinator: ShardCoordinator;
  readonly #parts: NodeClusterParts;
  readonly #edge: ClusterEdge;
  #publishing: NodeJS.Timeout | null = null;

  constructor(parts: NodeClusterParts) {
    const { core, membership } = parts;
    this.#parts = parts;
    this.coordinator = new ShardCoordinator({
      ...{ cluster: membership.cluster, host: this.#shardHost(), log: core.log },
      // A request to a node that hangs would wait as long as its connection.
      onNodeGone: (node) => this.#edge.disconnect(node),
      ...(core.limits.coordinator && { timing: core.limits.coordinator }),
    });
    membership.nodes.follow(() => this.coordinator.liveNodes);
    this.#edge = this.#makeEdge();
  }

  /** Request listener of the public HTTP server. */
  get listener(): RequestListener {
    return this.#edge.listener;
  }

  get upgrade(): MqttEdge['upgrade'] {
    return this.#edge.upgrade;
  }

  readonly routeMqtt: ClusterEdge['routeMqtt'] = (...connection) => this.#edge.routeMqtt(...connection);

  /** Listens for other nodes and makes this one active; resolves when its first shards are open. */
  async open(): Promise<void> {
    await this.#edge.listen();
    const { core, address } = this.#parts;
    await this.coordinator.start(core.link ?? `${address.host}:${this.#edge.port}`);
    this.#publishing = setInterval(() => void this.#publish(), PUBLISH_MS).unref();
    await this.#publish();
  }

  /** Hands over all shards, if another node can take them. */
  drain(): Promise<void> {
    return this.coordinator.drain(DRAIN_MS);
  }

  async close(): Promise<void> {
    await Promise.all([this.#stop(), this.#edge.close()]);
  }

  abort(): void {
    void this.#stop();
    this.#edge.abort();
  }

  sizes(): CollectionSizes {
    return this.#edge.sizes();
  }

  #stop(): Promise<void> {
    if (this.#publishing !== null) clearInterval(this.#publishing);
    return this.coordinator.stop();
  }

  async #publish(): Promise<void> {
    const { core, membership } = this.#parts;
    const { opened, handedOver } = this.coordinator.counts();
    const figures = { load: core.loadMeter.read(), opened, handedOver };
    await membership.cluster.publish(figures, core.leaseAgeMs() ?? 0).catch((error: unknown) => {
      core.log.debug({ err: error }, 'node figures not published; retrying');
    });
  }

  #makeEdge(): ClusterEdge {
    const { address, config, core, composed, requests, edges, membership, draining, mqtt, upgrade } = this.#parts;
    const { lease, newId, log, limits } = core;
    // Requests that other nodes forward are not routed again, so only addresses of public requests are needed.
    const addressOf = clientAddress(config.trustedProxies);
    return new ClusterEdge({
      ...{ lease, newId, log, draining, addressOf },
      nodeId: membership.cluster.self,
      keys: deriveLinkKeys(config.keys.master, config.keys.masterPrevious),
      ...address,
      tls: config.tls,
      directory: this.coordinator,
      hints: new TenantHints({
        ...{ identity: requests.identity, services: composed.services, rateLimiter: requests.rateLimiter, addressOf },
        cookies: requests.authenticator.cookies,
      }),
      local: {
        listener: edges.listener,
        upgrade,
        acceptMqtt: (...connection) => mqtt()?.accept(...connection) ?? null,
      },
      linkSockets: membership.linkSockets,
      mqttLimits: { ...defaultMqttLimits, ...limits.mqtt },
      graphqlLimits: defaultSocketLimits,
      ...(limits.links && { limits: limits.links }),
    });
  }

  #shardHost(): ShardHost {
    const { core, cognition, edges, mqtt } = this.#parts;
    const { runtime, store, log } = core;
    const logged = (work: Promise<void>) =>
      work.catch((error: unknown) => log.warn({ err: error }, 'sidecar contexts of moved shards not announced'));
    return {
      async open(shards) {
        await runtime.openShards(shards);
        void logged(cognition.openTenants(isIn(new Set(shards))));
      },
      async close(shards) {
        const matches = isIn(shards);
        // Read while the actors are in memory.
        const contexts = await cognition.contextsOf(matches).catch((error: unknown) => {
          log.warn({ err: error }, 'sidecar contexts of moved shards not read');
          return [];
        });
        // Operations are answered before the connections of their callers end.
        const close = async (): Promise<boolean> => {
          if (!(await runtime.startLeaving(shards, OPERATIONS_MS))) return false;
          for (const edge of [edges.sockets, edges.graphql, edges.mcp]) edge.endTenants(matches);
          const isQuiet = (await mqtt()?.endTenants(matches, MESSAGES_MS)) !== false;
          return isQuiet && runtime.closeShards(shards, UNLOAD_MS);
        };
        if (!(await close())) {
          runtime.keepShards(shards);
          return false;
        }
        cognition.interrupt(contexts);
        // Before its next statement the pool ends the sessions whose connection was lost during a write.
        await store.ping(PING_MS);
        return true;
      },
    };
  }
}

const isIn =
  (shards: ReadonlySet<number>) =>
  (tenantId: Uuid): boolean =>
    shards.has(shardOf(tenantId));
