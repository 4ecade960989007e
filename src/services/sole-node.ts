import { DATA_LEVEL } from '../domain/data-level.ts';
import type { MasterKeyIds } from '../domain/sealing.ts';
import { SHARD_COUNT } from '../domain/shards.ts';
import type { EpochMs, Milliseconds, Uuid } from '../domain/values.ts';
import type { DrainResult, NodeAdministration, NodeLoad, NodesReport } from '../store/contract/cluster.ts';

export interface SoleNodeParts {
  id: Uuid;
  /** Host and port of its HTTP server. */
  address: string;
  build: string;
  /** Newest migration that the build knows. */
  schemaLevel: number;
  startedAt: EpochMs;
  masterKeys: MasterKeyIds;
  load(): NodeLoad;
  /** Since the lease was renewed; null without a lease. */
  leaseAgeMs(): Milliseconds | null;
}

/** The node of a process that has the database to itself: it owns all shards, and cannot be drained. */
export class SoleNode implements NodeAdministration {
  readonly #parts: SoleNodeParts;

  constructor(parts: SoleNodeParts) {
    this.#parts = parts;
  }

  async report(): Promise<NodesReport> {
    const { id, address, build, schemaLevel, startedAt, masterKeys, load, leaseAgeMs } = this.#parts;
    return {
      nodes: [
        {
          ...{ id, number: 1, address, link: null, build, state: 'active', startedAt, alive: true },
          ...{ schemaLevel, dataLevel: DATA_LEVEL },
          figures: { load: load(), masterKeys, opened: SHARD_COUNT, handedOver: 0 },
          leaseAgeMs: leaseAgeMs(),
        },
      ],
      owners: Array.from({ length: SHARD_COUNT }, () => id),
      levels: Array.from({ length: SHARD_COUNT }, () => DATA_LEVEL),
    };
  }

  async drain(node: Uuid): Promise<DrainResult> {
    return node === this.#parts.id ? 'last active' : 'not found';
  }

  async resume(node: Uuid): Promise<DrainResult> {
    return node === this.#parts.id ? 'done' : 'not found';
  }
}
