import { afterEach, beforeEach } from 'vitest';
import type { WebSocket } from 'ws';
import type { ClusterParts, LocalEdges } from '../../../src/edges/cluster/edge.ts';
import { TestCluster, type TestNode } from './nodes.ts';

/**
 * Two nodes with an edge for WebSockets; the tenant of the cluster belongs to `there`. They are new for each test of
 * the file.
 */
export class WebSocketNodes<Served extends { node: TestNode; ws: WebSocket }> {
  cluster = new TestCluster();
  /** The WebSockets at the edges of the nodes, in order. */
  served: Served[] = [];
  here!: TestNode;
  there!: TestNode;
  readonly #upgrade: (node: TestNode, add: (served: Served) => void) => LocalEdges['upgrade'];

  /** `upgrade` makes the edge of a node, which passes on each WebSocket. */
  constructor(upgrade: (node: TestNode, add: (served: Served) => void) => LocalEdges['upgrade']) {
    this.#upgrade = upgrade;
    beforeEach(async () => {
      this.cluster = new TestCluster();
      this.served = [];
      this.here = await this.start();
      this.there = await this.start();
      this.cluster.owners.give(this.cluster.shard, this.there.id);
    });
    afterEach(async () => {
      for (const { ws } of this.served) ws.terminate();
      await this.cluster.close();
    });
  }

  /** One more node. */
  start(more: Partial<ClusterParts> = {}): Promise<TestNode> {
    return this.cluster.start(
      (node) => ({ upgrade: (...given) => this.#upgrade(node(), (served) => this.served.push(served))(...given) }),
      more,
    );
  }
}
