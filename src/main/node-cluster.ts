import type { RequestListener } from 'node:http';
import type { Config } from '../config.ts';
import type { CollectionSizes, SizeReporter } from '../domain/collection-sizes.ts';
import type { Milliseconds } from '../domain/values.ts';
import { ClusterEdge } from '../edges/cluster/edge.ts';
import { deriveLinkKeys } from '../edges/cluster/link-handshake.ts';
import { TenantHints } from '../edges/cluster/tenant-hints.ts';
import { defaultSocketLimits } from '../edges/graphql/socket-limits.ts';
import type { MqttEdge } from '../edges/mqtt/edge.ts';
import { defaultMqttLimits } from '../edges/mqtt/mqtt-limits.ts';
import { clientAddress } from '../edges/shared/client-address.ts';
import type { CognitiveLayer } from '../operations/cognition/cognition.ts';
import { ShardCoordinator } from '../services/shard-coordinator.ts';
import type { EdgeParts, HttpEdges } from './compose-edges.ts';
import type { NodeMembership } from './node-membership.ts';
import { makeShardHost } from './shard-host.ts';

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
    const { core, membership, edges, cognition, mqtt } = parts;
    const { runtime, store, log } = core;
    const { sockets, graphql, mcp } = edges;
    this.#parts = parts;
    this.coordinator = new ShardCoordinator({
      ...{ cluster: membership.cluster, log },
      host: makeShardHost({ runtime, store, log, cognition, sockets, graphql, mcp, mqtt }),
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
    const { core, composed, membership } = this.#parts;
    const { opened, handedOver } = this.coordinator.counts();
    const figures = { load: core.loadMeter.read(), masterKeys: composed.sealer.keyIds, opened, handedOver };
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
      keys: deriveLinkKeys(config.keys.master, config.keys.masterNext ?? config.keys.masterPrevious),
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
}
