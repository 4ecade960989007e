import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  request as sendRequest,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { v7 } from 'uuid';
import type { Log } from '../../../src/domain/log.ts';
import { type PeerNode, shardOf } from '../../../src/domain/shards.ts';
import {
  type ClusterEdge,
  type ClusterParts,
  type LocalEdges,
  openClusterEdge,
} from '../../../src/edges/cluster/edge.ts';
import type { LinkContent } from '../../../src/edges/cluster/link-handshake.ts';
import { LinkSockets } from '../../../src/edges/cluster/link-headers.ts';
import type { TenantHint, TenantHints } from '../../../src/edges/cluster/tenant-hints.ts';
import { defaultSocketLimits } from '../../../src/edges/graphql/socket-limits.ts';
import { type AddressOf, clientAddress } from '../../../src/edges/shared/client-address.ts';
import { dialler, linkKeys, Owners } from './links.ts';

/** A node of a test: a public HTTP server in front of local edges that the test provides. */
export interface TestNode {
  id: string;
  edge: ClusterEdge;
  server: Server;
  port: number;
  /** As the local edges see it. */
  addressOf: AddressOf;
  draining: boolean;
}

const mqttLimits = { connectMs: 5_000, maxPacketBytesBeforeConnack: 4_096 };

const graphqlLimits = { ...defaultSocketLimits, initMs: 5_000 };

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** Hints that the client names: `x-tenant` of a request, `tenant` of an upgrade's query, `tenant <id>` as a credential or certificate. */
export const namedHints: Pick<TenantHints, 'ofRequest' | 'ofUpgrade' | 'ofCredential' | 'ofCertificate'> = {
  ofRequest: ({ headers }) => (headers['x-tenant'] as string | undefined) ?? null,
  ofUpgrade: ({ url = '' }) => new URL(url, 'ws://x').searchParams.get('tenant'),
  ofCertificate: async (certificate) => /^tenant (.*)$/.exec(`${certificate}`)?.[1] ?? null,
  ofCredential: (credential): TenantHint => /^tenant (.*)$/.exec(credential)?.[1] ?? null,
};

/** Options of a node that soon refuses a tenant that stays unavailable. */
export const impatient = { limits: { retryMs: 100 } };

/** Nodes of one deployment, closed together. */
export class TestCluster {
  readonly owners = new Owners();
  readonly nodes: TestNode[] = [];
  /** A tenant whose shard can be given to a node. */
  readonly tenantId: string = v7();
  readonly shard: number = shardOf(this.tenantId);

  async start(
    makeLocal: (node: () => TestNode) => Partial<LocalEdges>,
    more: Partial<ClusterParts> & { trustedProxies?: string[] } = {},
  ): Promise<TestNode> {
    const id = v7();
    const linkSockets = new LinkSockets();
    const addressOf = clientAddress(more.trustedProxies ?? []);
    const notFound: RequestListener = (_request, response) => response.writeHead(404).end();
    const node = { id, addressOf: linkSockets.addressOf(addressOf), draining: false } as TestNode;
    node.edge = await openClusterEdge({
      ...{ nodeId: id, keys: linkKeys, host: '127.0.0.1', port: 0, tls: null, linkSockets, addressOf },
      ...{
        directory: this.owners.directoryOf(id),
        hints: namedHints as TenantHints,
        newId: () => v7(),
        log: silentLog,
        // Long, so that a first attempt that takes long is followed by another one.
        limits: { retryMs: 8_000 },
      },
      ...{ lease: { valid: () => true }, draining: () => node.draining, mqttLimits, graphqlLimits },
      ...more,
      local: {
        ...{ listener: notFound, upgrade: (_request, socket) => void socket.destroy(), acceptMqtt: () => null },
        ...makeLocal(() => node),
      },
    });
    this.owners.nodes.set(id, { id, address: `127.0.0.1:${node.edge.port}` });
    const shouldUpgradeCallback = ({ headers }: IncomingMessage) => headers.upgrade?.toLowerCase() === 'websocket';
    node.server = createServer({ shouldUpgradeCallback }, node.edge.listener);
    node.server.on('upgrade', node.edge.upgrade);
    node.server.listen(0, '127.0.0.1');
    await once(node.server, 'listening');
    node.port = (node.server.address() as AddressInfo).port;
    this.nodes.push(node);
    return node;
  }

  /** A link to a node, as another node opens it. */
  link(node: TestNode, content: LinkContent = { kind: 'http' }): Promise<Socket> {
    return dialler().open(this.owners.nodes.get(node.id) as PeerNode, content);
  }

  async close(): Promise<void> {
    for (const { server, edge } of this.nodes) {
      edge.abort();
      server.closeAllConnections();
      server.close();
    }
  }
}

export interface Answer {
  status: number;
  headers: IncomingMessage['headers'];
  rawHeaders: string[];
  body: string;
}

/** Sends a request on a new connection; `body` in one piece. */
export async function call(
  port: number,
  path: string,
  {
    method = 'GET',
    headers = {},
    body,
  }: { method?: string; headers?: Record<string, string | string[]>; body?: string } = {},
): Promise<Answer> {
  const sent = sendRequest({ port, host: '127.0.0.1', path, method, headers, agent: false });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { ...answerOf(response), body: await textOf(response) };
}

export const answerOf = ({ statusCode = 0, headers, rawHeaders }: IncomingMessage) => ({
  status: statusCode,
  headers,
  rawHeaders,
});

export async function textOf(message: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
