import ELK, { type ElkNode } from 'elkjs/lib/elk-api.js';
import workerUrl from 'elkjs/lib/elk-worker.min.js?url';

// Loaded on demand: the layout library is larger than the rest of the console. It runs in a worker, so that the page stays
// responsive.

let elk: InstanceType<typeof ELK> | null = null;

/** All positions are relative to the root, not to the parent. */
const ABSOLUTE = { 'elk.json.shapeCoords': 'ROOT', 'elk.json.edgeCoords': 'ROOT' };

export async function layout(graph: ElkNode): Promise<ElkNode> {
  elk ??= new ELK({ workerUrl });
  return elk.layout({ ...graph, layoutOptions: { ...ABSOLUTE, ...graph.layoutOptions } });
}
