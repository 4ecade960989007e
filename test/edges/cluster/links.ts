import { createSecretKey } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { v7 } from 'uuid';
import { type PeerNode, SHARD_COUNT, type ShardDirectory, type ShardRoute } from '../../../src/domain/shards.ts';
import { LinkDialler } from '../../../src/edges/cluster/link-dialler.ts';
import { deriveLinkKeys } from '../../../src/edges/cluster/link-handshake.ts';
import { defaultLinkLimits, type LinkLimits, type LinkTls } from '../../../src/edges/cluster/link-limits.ts';
import { type AcceptedLink, LinkServer, type LinkServerParts } from '../../../src/edges/cluster/link-server.ts';

const tlsFile = (name: string) => readFileSync(new URL(`../../support/tls/${name}`, import.meta.url));
export const linkTls: LinkTls = { cert: tlsFile('localhost.crt'), key: tlsFile('localhost.key') };

export const masterKey = (text: string) => createSecretKey(Buffer.alloc(32, text));
export const linkKeys = deriveLinkKeys(masterKey('current'), null);

/** The owners of all shards, as several nodes of a test see them. */
export class Owners {
  readonly nodes = new Map<string, PeerNode>();
  /** The owner of every shard; a shard without an owner is undefined. */
  readonly byShard: (string | undefined)[] = Array.from({ length: SHARD_COUNT });
  refreshes = 0;

  /** Outdated owners that some nodes see until they refresh. */
  readonly #views = new Map<string, (string | undefined)[]>();
  /** Entries in progress, by node and shard. */
  readonly entered = new Map<string, number>();

  give(shard: number, nodeId: string | undefined): void {
    this.byShard[shard] = nodeId;
  }

  /** Keeps the current owners in the view of this node until it refreshes. */
  freeze(nodeId: string): void {
    this.#views.set(nodeId, [...this.byShard]);
  }

  inProgress(nodeId: string, shard: number): number {
    return this.entered.get(`${nodeId} ${shard}`) ?? 0;
  }

  directoryOf(nodeId: string): ShardDirectory {
    return {
      enter: (shard): ShardRoute => {
        const owner = (this.#views.get(nodeId) ?? this.byShard)[shard];
        if (owner === undefined) return { at: 'none' };
        if (owner !== nodeId) {
          const node = this.nodes.get(owner);
          return node === undefined ? { at: 'none' } : { at: 'node', node };
        }
        const name = `${nodeId} ${shard}`;
        this.entered.set(name, this.inProgress(nodeId, shard) + 1);
        let left = false;
        return {
          at: 'here',
          leave: () => {
            if (left) throw new Error('left twice');
            left = true;
            this.entered.set(name, this.inProgress(nodeId, shard) - 1);
          },
        };
      },
      refresh: async () => {
        this.refreshes += 1;
        this.#views.delete(nodeId);
      },
    };
  }
}

/** A listener for links on a free port, with what it has accepted. */
export interface TestListener {
  node: PeerNode;
  port: number;
  listener: LinkServer;
  owners: Owners;
  accepted: AcceptedLink[];
}

export async function startListener(
  parts: Partial<Omit<LinkServerParts, 'limits'>> & { limits?: Partial<LinkLimits> } = {},
): Promise<TestListener> {
  const owners = new Owners();
  const nodeId = v7();
  owners.byShard.fill(nodeId);
  const accepted: AcceptedLink[] = [];
  const listener = new LinkServer({
    ...{ nodeId, keys: linkKeys, tls: null, lease: { valid: () => true }, directory: owners.directoryOf(nodeId) },
    onLink: (link) => void accepted.push(link),
    ...parts,
    limits: { ...defaultLinkLimits, ...parts.limits },
  });
  const port = await listener.listen('127.0.0.1', 0);
  const node = { id: nodeId, address: `127.0.0.1:${port}` };
  owners.nodes.set(nodeId, node);
  return { node, port, listener, owners, accepted };
}

export const dialler = (
  parts: { keys?: typeof linkKeys; tls?: boolean; limits?: Partial<LinkLimits>; nodeId?: string } = {},
) =>
  new LinkDialler({
    ...{ nodeId: v7(), keys: linkKeys, tls: false, ...parts },
    limits: { ...defaultLinkLimits, ...parts.limits },
  });

/** A TCP client that collects what it receives. */
export async function rawClient(
  port: number,
): Promise<{ socket: Socket; received(): Buffer; closed: Promise<unknown> }> {
  const socket = connect({ port, host: '127.0.0.1' });
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk));
  socket.on('error', () => {});
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await once(socket, 'connect');
  return { socket, closed, received: () => Buffer.concat(chunks) };
}
