import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { afterEach, beforeEach } from 'vitest';
import type { ClusterParts } from '../../../src/edges/cluster/edge.ts';
import { call, TestCluster, type TestNode, textOf } from './nodes.ts';

/**
 * Two nodes whose local edges pass each request to `serve`; the tenant of the cluster belongs to `there`. They are new
 * for each test of the file.
 */
export class ServingNodes {
  cluster = new TestCluster();
  /** Requests that each node has served, in order. */
  served: { node: string; request: IncomingMessage }[] = [];
  here!: TestNode;
  there!: TestNode;
  /** By default answers with what the node received. */
  serve!: (request: IncomingMessage, response: ServerResponse, node: TestNode) => void;

  constructor() {
    beforeEach(async () => {
      this.cluster = new TestCluster();
      this.served = [];
      this.serve = (...given) => void echo(...given);
      this.here = await this.start();
      this.there = await this.start();
      this.cluster.owners.give(this.cluster.shard, this.there.id);
    });
    afterEach(() => this.cluster.close());
  }

  /** One more node. */
  start(more: Partial<ClusterParts> & { trustedProxies?: string[] } = {}): Promise<TestNode> {
    const listenerOf =
      (node: () => TestNode): RequestListener =>
      (request, response) => {
        this.served.push({ node: node().id, request });
        this.serve(request, response, node());
      };
    return this.cluster.start((node) => ({ listener: listenerOf(node) }), more);
  }

  tenant(): { 'x-tenant': string } {
    return { 'x-tenant': this.cluster.tenantId };
  }

  inProgress(node: TestNode): number {
    return this.cluster.owners.inProgress(node.id, this.cluster.shard);
  }

  /** A request of the tenant. */
  send(options: Parameters<typeof call>[2] = {}, path = '/v1/devices', from = this.here): ReturnType<typeof call> {
    return call(from.port, path, { ...options, headers: { ...this.tenant(), ...options.headers } });
  }
}

export const echo = async (request: IncomingMessage, response: ServerResponse, node: TestNode): Promise<void> => {
  const body = await textOf(request);
  const { method, url, rawHeaders } = request;
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify({ node: node.id, method, url, rawHeaders, body, address: node.addressOf(request) }));
};
