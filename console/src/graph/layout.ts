import ELK, { type ElkNode } from 'elkjs/lib/elk-api.js';
import workerUrl from 'elkjs/lib/elk-worker.min.js?url';

// Loaded where something is drawn, and not before: the layout library is larger than the rest of the console. It works in
// a thread of its own, so that the page goes on answering.

let elk: InstanceType<typeof ELK> | null = null;

/** Every position in the answer is from the corner of the whole drawing. */
const ABSOLUTE = { 'elk.json.shapeCoords': 'ROOT', 'elk.json.edgeCoords': 'ROOT' };

export async function layout(graph: ElkNode): Promise<ElkNode> {
  elk ??= new ELK({ workerUrl });
  return elk.layout({ ...graph, layoutOptions: { ...ABSOLUTE, ...graph.layoutOptions } });
}
