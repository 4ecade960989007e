import type { RequestListener } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as after } from 'node:timers/promises';
import { type CollectionSizes, type SizeReporter, sumSizes } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import type { PeerNode, ShardDirectory } from '../../domain/shards.ts';
import type { Uuid } from '../../domain/values.ts';
import type { AddressOf } from '../shared/client-address.ts';
import type { MqttClient } from '../shared/mqtt-client.ts';
import { type GraphqlConnectLimits, GraphqlRelay } from './graphql-relay.ts';
import { HttpRouter } from './http-router.ts';
import { LinkDialler } from './link-dialler.ts';
import type { LinkKeys } from './link-handshake.ts';
import { type LinkSockets, removePrivateHeaders } from './link-headers.ts';
import { LinkHttp, type UpgradeListener } from './link-http.ts';
import { defaultLinkLimits, type LinkLimits, type LinkTls } from './link-limits.ts';
import { LinkPool } from './link-pool.ts';
import { type AcceptedLink, LinkServer } from './link-server.ts';
import { type MqttConnectLimits, MqttRouter } from './mqtt-router.ts';
import { ShardRouter } from './shard-router.ts';
import type { TenantHints } from './tenant-hints.ts';
import { UpgradeRouter } from './upgrade-router.ts';

/** The functions of the other edges, which serve the shards of this node. */
export interface LocalEdges {
  listener: RequestListener;
  upgrade: UpgradeListener;
  /** Takes over an MQTT connection from another node; null if it does not accept it. */
  acceptMqtt(source: Duplex, client: MqttClient): object | null;
}

export interface ClusterParts {
  nodeId: Uuid;
  /** See `deriveLinkKeys`. */
  keys: LinkKeys;
  /** Where this node listens for the others; a port of 0 lets the system choose. */
  host: string;
  port: number;
  /** For links; either all nodes of a deployment use TLS, or none. */
  tls: LinkTls | null;
  directory: ShardDirectory;
  hints: TenantHints;
  local: LocalEdges;
  /** The one that `LinkSockets.addressOf` of the local edges belongs to. */
  linkSockets: LinkSockets;
  /** The client's address of a public request. */
  addressOf: AddressOf;
  lease: Pick<Lease, 'valid'>;
  newId(): Uuid;
  /** True while the process stops. */
  draining(): boolean;
  log: Log;
  mqttLimits: MqttConnectLimits;
  graphqlLimits: GraphqlConnectLimits;
  limits?: Partial<LinkLimits>;
}

const DRAIN_MS = 4_000;
const DRAIN_POLL_MS = 20;

/** Opens the edge between the public listeners of a node and its local edges. */
export async function openClusterEdge(parts: ClusterParts): Promise<ClusterEdge> {
  const edge = new ClusterEdge(parts);
  await edge.listen();
  return edge;
}

/** Routes connections and requests to the nodes that own their tenants, and accepts those that other nodes send. */
export class ClusterEdge implements SizeReporter {
  readonly #parts: ClusterParts;
  readonly #server: LinkServer;
  readonly #dialler: LinkDialler;
  readonly #linkHttp: LinkHttp;
  readonly #pool: LinkPool;
  readonly #router: HttpRouter;
  readonly #mqttRouter: MqttRouter;
  readonly #upgradeRouter: UpgradeRouter;
  readonly #graphqlRelay: GraphqlRelay;
  #port = 0;

  constructor(parts: ClusterParts) {
    const { nodeId, keys, tls, directory, hints, lease, local, newId } = parts;
    const limits = { ...defaultLinkLimits, ...parts.limits };
    this.#parts = parts;
    this.#server = new LinkServer({
      ...{ nodeId, keys, tls, directory, lease, limits },
      onLink: (link) => this.#accept(link),
    });
    this.#dialler = new LinkDialler({ nodeId, keys, tls: tls !== null, limits });
    this.#linkHttp = new LinkHttp({ ...local, directory, newId, linkSockets: parts.linkSockets });
    const self: PeerNode = { id: nodeId, address: '' };
    const router = new ShardRouter(directory, limits.retryMs);
    this.#pool = new LinkPool({
      ...{ nodeId, dialler: this.#dialler, idleMs: limits.idleMs, responseMs: limits.responseMs },
      connectLocally: () => this.#linkHttp.connectRequests(),
    });
    this.#router = new HttpRouter({ ...parts, self, router, listener: local.listener, pool: this.#pool });
    this.#mqttRouter = new MqttRouter({ router, hints, dialler: this.#dialler, limits: parts.mqttLimits });
    this.#upgradeRouter = new UpgradeRouter({ ...parts, router, dialler: this.#dialler, upgrade: local.upgrade });
    this.#graphqlRelay = new GraphqlRelay({
      ...{ ...parts, router, dialler: this.#dialler, linkHttp: this.#linkHttp, limits: parts.graphqlLimits },
    });
  }

  async listen(): Promise<void> {
    this.#port = await this.#server.listen(this.#parts.host, this.#parts.port);
  }

  /** The bound port of the listener for other nodes. */
  get port(): number {
    return this.#port;
  }

  /** Request listener of the public HTTP server. */
  get listener(): RequestListener {
    return this.#router.listener;
  }

  /** For the `upgrade` event of the public HTTP server. */
  readonly upgrade: UpgradeListener = (request, socket, head) => {
    const [path] = (request.url ?? '/').split('?', 1);
    switch (path) {
      case '/graphql':
        this.#graphqlRelay.upgrade(request, socket, head);
        break;
      case '/mqtt':
        // The MQTT edge completes the handshake, and then routes the connection by its CONNECT.
        removePrivateHeaders(request);
        this.#parts.local.upgrade(request, socket, head);
        break;
      default:
        this.#upgradeRouter.upgrade(request, socket, head);
    }
  };

  /** Routes a public MQTT connection: `MqttParts.route`. See `MqttRouter.route`. */
  readonly routeMqtt: MqttRouter['route'] = (...connection) => this.#mqttRouter.route(...connection);

  sizes(): CollectionSizes {
    return sumSizes([this.#server, this.#dialler, this.#pool, this.#router, this.#linkHttp, this.#graphqlRelay]);
  }

  /** Closes all links to and from a node that is no longer a member. */
  disconnect(node: Uuid): void {
    this.#server.abort(node);
    this.#pool.remove(node);
    this.#dialler.abort(node);
  }

  /** Refuses further links; closes all when the requests in progress are answered, after 4 s at the latest. */
  async close(): Promise<void> {
    this.#server.close();
    this.#linkHttp.drain();
    this.#graphqlRelay.close();
    const until = performance.now() + DRAIN_MS;
    const inProgress = () => this.#router.forwarding + this.#linkHttp.responses > 0;
    while (inProgress() && performance.now() < until) await after(DRAIN_POLL_MS);
    this.abort();
  }

  /** Closes everything now. */
  abort(): void {
    this.#server.close();
    this.#server.abort();
    this.#pool.remove();
    this.#dialler.abort();
  }

  #accept(link: AcceptedLink): void {
    switch (link.kind) {
      case 'http':
        this.#linkHttp.acceptRequests(link.socket);
        break;
      case 'upgrade':
        this.#linkHttp.acceptUpgrade(link.socket, link.leave);
        break;
      case 'mqtt':
        if (this.#parts.local.acceptMqtt(link.socket, link.client) === null) link.socket.destroy();
        link.leave();
    }
  }
}
