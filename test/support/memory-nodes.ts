import type { MasterKeyIds } from '../../src/domain/sealing.ts';
import { SHARD_COUNT } from '../../src/domain/shards.ts';
import type { Uuid } from '../../src/domain/values.ts';
import type { DrainResult, NodeAdministration, NodesReport, ReportedNode } from '../../src/store/contract/cluster.ts';

export const firstNode: Uuid = '0195d9a2-7f00-7000-8000-0000000000a1';
export const secondNode: Uuid = '0195d9a2-7f00-7000-8000-0000000000a2';

const nodeOf = (id: Uuid, number: number): ReportedNode => ({
  ...{ id, number, address: `node-${number}:8080`, link: `10.0.0.${number}:7400`, build: '1.0.0', state: 'active' },
  ...{ startedAt: Date.UTC(2026, 2, 1), alive: true, leaseAgeMs: 812.4 },
  ...{ schemaLevel: 23, dataLevel: 1 },
  figures: {
    load: {
      ...{ liveActors: 60, deviceSessions: 40, cpuShare: 0.25 },
      ...{ heapBytes: 3_000_000_000, rssBytes: 4_000_000_000, eventLoopDelayMs: 2 },
    },
    ...{ opened: 130, handedOver: 2 },
  },
});

/** Two nodes without a database: the first owns the even shards, the second the odd ones. */
export class MemoryNodes implements NodeAdministration {
  nodes: ReportedNode[] = [];
  owners: (Uuid | null)[] = [];
  levels: number[] = [];
  /** The keys of all nodes whose figures have none. */
  masterKeys: () => MasterKeyIds = () => ({ current: 'fV3hGm0nB1s', next: null, previous: null });

  constructor() {
    this.reset();
  }

  /** Restores the state at the start. */
  reset(): void {
    this.nodes = [nodeOf(firstNode, 1), nodeOf(secondNode, 2)];
    this.owners = Array.from({ length: SHARD_COUNT }, (_, shard) => (shard % 2 ? secondNode : firstNode));
    this.levels = this.owners.map(() => 1);
  }

  /** The node reports nothing, as before its first figures, or other keys. */
  reportKeys(id: Uuid, masterKeys: MasterKeyIds | null): void {
    this.nodes = this.nodes.map((node) => {
      if (node.id !== id) return node;
      return {
        ...node,
        figures: masterKeys === null || node.figures === null ? null : { ...node.figures, masterKeys },
      };
    });
  }

  async report(): Promise<NodesReport> {
    const nodes = this.nodes.map(({ figures, ...node }) => ({
      ...node,
      figures: figures && { masterKeys: this.masterKeys(), ...figures },
    }));
    return { nodes, owners: [...this.owners], levels: [...this.levels] };
  }

  drain(id: Uuid): Promise<DrainResult> {
    const others = this.nodes.some((node) => node.id !== id && node.state === 'active');
    return this.#change(id, 'active', 'draining', others);
  }

  resume(id: Uuid): Promise<DrainResult> {
    return this.#change(id, 'draining', 'active', true);
  }

  async #change(
    id: Uuid,
    from: ReportedNode['state'],
    to: ReportedNode['state'],
    allowed: boolean,
  ): Promise<DrainResult> {
    const found = this.nodes.find((node) => node.id === id);
    if (found === undefined) return 'not found';
    if (found.state === from && allowed) found.state = to;
    if (found.state === to) return 'done';
    return found.state === from ? 'last active' : 'wrong state';
  }
}
