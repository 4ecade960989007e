import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { ClusterParts } from '../../../src/edges/cluster/edge.ts';
import { call, TestCluster, type TestNode, textOf } from './nodes.ts';

/** Two nodes whose local edges pass each request to `serve`; the tenant of the cluster belongs to `there`. */
export class ServingNodes {
  readonly cluster = new TestCluster();
  /** Requests that each node has served, in order. */
  readonly served: { node: string; request: IncomingMessage }[] = [];
  here!: TestNode;
  there!: TestNode;
  /** By default answers with what the node received. */
  serve: (request: IncomingMessage, response: ServerResponse, node: TestNode) => void = (...given) =>
    void echo(...given);

  static async open(): Promise<ServingNodes> {
    const nodes = new ServingNodes();
    nodes.here = await nodes.start();
    nodes.there = await nodes.start();
    nodes.cluster.owners.give(nodes.cluster.shard, nodes.there.id);
    return nodes;
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
