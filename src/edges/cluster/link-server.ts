import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import type { ShardDirectory } from '../../domain/shards.ts';
import type { Uuid } from '../../domain/values.ts';
import { guardWrites } from '../../domain/write-guard.ts';
import type { MqttClient, MqttTransport } from '../shared/mqtt-client.ts';
import { readBytes, readProxyHeader, StreamEnded } from '../shared/read-bytes.ts';
import { channelBinding } from './channel-binding.ts';
import { type LinkContent, type LinkKeys, ListenerHandshake, PROOF_BYTES } from './link-handshake.ts';
import type { LinkLimits, LinkTls } from './link-limits.ts';

/** An authenticated connection from another node, in paused mode, with its content. */
export type AcceptedLink = (Exclude<LinkContent, { kind: 'mqtt' }> | { kind: 'mqtt'; client: MqttClient }) & {
  socket: Socket;
  /** The node at the other end. */
  peer: Uuid;
  /** Ends the entry into the shard, which the directory has answered with `here`; nothing for `http`. */
  leave(): void;
};

export interface LinkServerParts {
  nodeId: Uuid;
  keys: LinkKeys;
  tls: LinkTls | null;
  directory: Pick<ShardDirectory, 'enter'>;
  /** No byte leaves a link once it has expired. */
  lease: Pick<Lease, 'valid'>;
  limits: LinkLimits;
  onLink(link: AcceptedLink): void;
}

const KEEP_ALIVE_MS = 10_000;

/** Server for other nodes: accepts connections that prove the cluster key. */
export class LinkServer implements SizeReporter {
  readonly #parts: LinkServerParts;
  readonly #server: Server;
  readonly #secureContext: SecureContext | null;
  /** TCP connections in the order of their arrival. */
  readonly #unauthenticated = new Set<Socket>();
  readonly #links = new Map<Socket, Uuid>();

  constructor(parts: LinkServerParts) {
    const { tls } = parts;
    this.#parts = parts;
    this.#secureContext = tls === null ? null : createSecureContext({ ...tls, minVersion: 'TLSv1.3' });
    this.#server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => void this.#accept(socket));
  }

  /** Resolves with the bound port. The port is not shared with other processes of a `node:cluster`. */
  listen(host: string, port: number): Promise<number> {
    const server = this.#server;
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host, port, exclusive: true }, () => {
        server.off('error', reject);
        const bound = server.address();
        resolve(typeof bound === 'object' && bound !== null ? bound.port : port);
      });
    });
  }

  sizes(): CollectionSizes {
    return { cluster_unauthenticated_links: this.#unauthenticated.size, cluster_accepted_links: this.#links.size };
  }

  /** Stops accepting links; those in the handshake are closed. */
  close(): void {
    this.#server.close();
    for (const socket of this.#unauthenticated) socket.destroy();
  }

  /** Closes the links of a node now, or of all nodes. */
  abort(peer?: Uuid): void {
    for (const [socket, id] of this.#links) if (peer === undefined || id === peer) socket.destroy();
  }

  async #accept(connection: Socket): Promise<void> {
    const authenticated = this.#limitUnauthenticated(connection);
    try {
      const socket = await this.#secure(connection);
      const accepted = await this.#handshake(socket, authenticated);
      if (accepted === null) return void socket.destroy();
      if (socket.destroyed) return accepted.leave();
      this.#links.set(socket, accepted.peer);
      socket.once('close', () => this.#links.delete(socket));
      socket.setKeepAlive(true, KEEP_ALIVE_MS);
      this.#parts.onLink(accepted);
    } catch {
      connection.destroy();
    }
  }

  /** The oldest connection is closed, so that open connections cannot keep nodes out. Call the result to end the limit. */
  #limitUnauthenticated(connection: Socket): () => void {
    const { limits } = this.#parts;
    connection.on('error', () => connection.destroy());
    const timer = setTimeout(() => connection.destroy(), limits.handshakeMs);
    const remove = () => {
      clearTimeout(timer);
      this.#unauthenticated.delete(connection);
    };
    connection.once('close', remove);
    this.#unauthenticated.add(connection);
    const [oldest] = this.#unauthenticated;
    if (this.#unauthenticated.size > limits.maxUnauthenticated) oldest?.destroy();
    return remove;
  }

  async #secure(connection: Socket): Promise<Socket> {
    if (this.#secureContext === null) return connection;
    const socket = new TLSSocket(connection, { isServer: true, secureContext: this.#secureContext });
    socket.on('error', () => connection.destroy());
    await Promise.race([
      once(socket, 'secure'),
      once(connection, 'close').then(() => {
        throw new StreamEnded();
      }),
    ]);
    return socket;
  }

  /** Null if the peer is not a node of this deployment, or the shard is not here. Rejects if the peer disconnects. */
  async #handshake(socket: Socket, authenticated: () => void): Promise<AcceptedLink | null> {
    const { keys, nodeId, lease } = this.#parts;
    guardWrites(socket, () => lease.valid());
    const handshake = new ListenerHandshake(keys, nodeId, channelBinding(socket));
    socket.write(handshake.hello);
    const verified = handshake.verify(await readBytes(socket, PROOF_BYTES));
    if (verified === null) return null;
    const { peer, content } = verified;
    authenticated();
    const leave = content.kind === 'http' ? noop : await this.#enter(content.shard);
    if (leave === null) {
      await new Promise<void>((resolve) => socket.end(handshake.confirm('misdirected'), resolve));
      return null;
    }
    try {
      socket.write(handshake.confirm('accepted'));
      if (content.kind !== 'mqtt') return { ...content, socket, peer, leave };
      return { kind: 'mqtt', client: await this.#readClient(socket, content.transport), socket, peer, leave };
    } catch (error) {
      leave();
      throw error;
    }
  }

  async #enter(shard: number): Promise<(() => void) | null> {
    const entered = this.#parts.directory.enter(shard);
    const route = entered instanceof Promise ? await entered : entered;
    return route.at === 'here' ? () => route.leave() : null;
  }

  async #readClient(socket: Socket, transport: MqttTransport): Promise<MqttClient> {
    const timer = setTimeout(() => socket.destroy(), this.#parts.limits.handshakeMs);
    try {
      const header = await readProxyHeader(socket);
      if (header === null) throw new Error('no PROXY protocol header');
      // Headers of builds before this TLV do not report whether the client uses TLS.
      const { source, encrypted, certificate } = header;
      return {
        ...{ address: source?.address ?? '', transport, encrypted: encrypted ?? transport !== 'tcp' },
        ...(certificate !== undefined && { certificate }),
      };
    } finally {
      clearTimeout(timer);
    }
  }
}

const noop = (): void => {};
