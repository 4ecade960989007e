import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import type { PeerNode } from '../../domain/shards.ts';
import type { Uuid } from '../../domain/values.ts';
import { readBytes } from '../shared/read-bytes.ts';
import { channelBinding } from './channel-binding.ts';
import { ClientHandshake, CONFIRMATION_BYTES, HELLO_BYTES, type LinkContent, type LinkKeys } from './link-handshake.ts';
import type { LinkLimits } from './link-limits.ts';

/**
 * Why a link could not be opened; nothing of its content was sent. `unreachable`: no connection, or it broke in the
 * handshake. `refused`: the peer did not prove to be the expected node. `misdirected`: it is not the owner of the shard.
 */
export type LinkFault = 'unreachable' | 'refused' | 'misdirected';

export class LinkError extends Error {
  override name = 'LinkError';
  readonly fault: LinkFault;

  constructor(fault: LinkFault, node: PeerNode) {
    super(`link to node ${node.id} at ${node.address}: ${fault}`);
    this.fault = fault;
  }
}

export interface LinkDiallerParts {
  nodeId: Uuid;
  keys: LinkKeys;
  /** Whether the nodes of this deployment use TLS between them. */
  tls: boolean;
  limits: LinkLimits;
}

const KEEP_ALIVE_MS = 10_000;

/** Opens links to other nodes. */
export class LinkDialler implements SizeReporter {
  readonly #parts: LinkDiallerParts;
  readonly #links = new Map<Socket, Uuid>();

  constructor(parts: LinkDiallerParts) {
    this.#parts = parts;
  }

  /** A connection that the node has accepted for this content, in paused mode. Rejects with a `LinkError`. */
  async open(node: PeerNode, content: LinkContent): Promise<Socket> {
    const socket = this.#connect(node, content);
    // Every fault also closes the socket, which ends the reads.
    socket.on('error', () => socket.destroy());
    this.#links.set(socket, node.id);
    socket.once('close', () => this.#links.delete(socket));
    try {
      await this.#established(socket);
      const fault = await this.#handshake(socket, node, content);
      if (fault === null) return socket;
      throw new LinkError(fault, node);
    } catch (error) {
      socket.destroy();
      throw error instanceof LinkError ? error : new LinkError('unreachable', node);
    }
  }

  sizes(): CollectionSizes {
    return { cluster_dialled_links: this.#links.size };
  }

  /** Closes the links to a node now, or to all nodes. */
  abort(peer?: Uuid): void {
    for (const [socket, id] of this.#links) if (peer === undefined || id === peer) socket.destroy();
  }

  #connect({ address }: PeerNode, { kind }: LinkContent): Socket {
    // Not `https:`, whose default port would be left out.
    const { hostname, port } = new URL(`link://${address}`);
    const to = { host: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port), noDelay: true };
    // An HTTP link that the node has ended cannot be used again; other content may end in each direction.
    const alive = { keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS, allowHalfOpen: kind !== 'http' };
    // The certificate has the public name of the service; the handshake authenticates the node and this TLS session.
    return this.#parts.tls
      ? connectTls({ ...to, ...alive, minVersion: 'TLSv1.3', rejectUnauthorized: false })
      : connect({ ...to, ...alive });
  }

  #established(socket: Socket): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => socket.destroy(), this.#parts.limits.connectMs);
      socket.once(this.#parts.tls ? 'secureConnect' : 'connect', () => {
        clearTimeout(timer);
        resolve();
      });
      socket.once('close', () => {
        clearTimeout(timer);
        reject(new Error('closed while connecting'));
      });
    });
  }

  async #handshake(socket: Socket, peer: PeerNode, content: LinkContent): Promise<LinkFault | null> {
    const { keys, nodeId, limits } = this.#parts;
    const timer = setTimeout(() => socket.destroy(), limits.confirmMs);
    try {
      const hello = await readBytes(socket, HELLO_BYTES);
      const handshake = ClientHandshake.begin(hello, {
        ...{ keys, nodeId, content, peer: peer.id },
        binding: channelBinding(socket),
      });
      if (handshake === null) return 'refused';
      socket.write(handshake.proof);
      const confirmation = await readBytes(socket, CONFIRMATION_BYTES).catch(() => null);
      const status = confirmation === null ? null : handshake.verify(confirmation);
      if (status === null) return 'refused';
      return status === 'accepted' ? null : status;
    } finally {
      clearTimeout(timer);
    }
  }
}
