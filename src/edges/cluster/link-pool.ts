import { Agent, type AgentOptions, type RequestOptions } from 'node:http';
import type { Duplex } from 'node:stream';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import type { PeerNode } from '../../domain/shards.ts';
import type { Milliseconds, Uuid } from '../../domain/values.ts';
import type { LinkDialler } from './link-dialler.ts';

const MAX_FREE_LINKS = 64;

type OnConnection = (error: Error | null, connection: Duplex) => void;

/** Keep-alive links to one node. A request fails with a `LinkError` if no link can be opened: nothing of it was sent. */
class LinkAgent extends Agent {
  readonly #open: () => Promise<Duplex>;

  constructor(open: () => Promise<Duplex>, options: AgentOptions) {
    super(options);
    this.#open = open;
  }

  override createConnection(_options: object, onConnection?: OnConnection): undefined {
    this.#open().then(
      (link) => onConnection?.(null, link),
      (error: Error) => onConnection?.(error, undefined as never),
    );
  }
}

export interface LinkPoolParts {
  nodeId: Uuid;
  dialler: Pick<LinkDialler, 'open'>;
  /** A link of this node to itself. */
  connectLocally(): Duplex;
  idleMs: Milliseconds;
  responseMs: Milliseconds;
}

/** The agents of all nodes to which requests were forwarded. */
export class LinkPool implements SizeReporter {
  readonly #parts: LinkPoolParts;
  /** The links of this node to itself are used once: they have no timeouts. */
  readonly #localAgent: LinkAgent;
  readonly #agents = new Map<Uuid, { address: string; agent: LinkAgent }>();

  constructor(parts: LinkPoolParts) {
    this.#parts = parts;
    this.#localAgent = new LinkAgent(async () => parts.connectLocally(), { keepAlive: false });
  }

  /** Options of a request to the node. A link of this node to itself cannot be lost. */
  optionsOf(node: PeerNode): Pick<RequestOptions, 'agent' | 'timeout'> {
    const agent = this.agentOf(node);
    return agent === this.#localAgent ? { agent } : { agent, timeout: this.#parts.responseMs };
  }

  agentOf(node: PeerNode): Agent {
    const { nodeId, dialler, idleMs } = this.#parts;
    if (node.id === nodeId) return this.#localAgent;
    const known = this.#agents.get(node.id);
    if (known?.address === node.address) return known.agent;
    known?.agent.destroy();
    const agent = new LinkAgent(() => dialler.open(node, { kind: 'http' }), {
      ...{ keepAlive: true, maxFreeSockets: MAX_FREE_LINKS, scheduling: 'lifo', timeout: idleMs },
    });
    this.#agents.set(node.id, { address: node.address, agent });
    return agent;
  }

  sizes(): CollectionSizes {
    return { cluster_pooled_nodes: this.#agents.size };
  }

  /** Forgets a node that has left, or all nodes, and closes their links. */
  remove(node?: Uuid): void {
    for (const [id, { agent }] of this.#agents) {
      if (node !== undefined && id !== node) continue;
      agent.destroy();
      this.#agents.delete(id);
    }
  }
}
