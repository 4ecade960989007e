import type { ElkNode } from 'elkjs/lib/elk-api.js';
import type { Point } from '../graph/path.ts';
import type { StepRecord } from './plan-display.ts';

// Converts a plan to a graph for the layout library: a node for each step, an edge for each dependency.

const WIDTH = 214;
const HEIGHT = 72;
export const UNDO_HEIGHT = 28;

export interface DrawnStep {
  id: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface DrawnDependency {
  id: string;
  from: string;
  to: string;
  points: readonly Point[];
}

export interface PlanDrawing {
  width: number;
  height: number;
  steps: ReadonlyMap<string, DrawnStep>;
  dependencies: readonly DrawnDependency[];
}

export type Direction = 'DOWN' | 'RIGHT';

/** Step IDs are user input, so nodes are identified by their index. */
const nodeId = (index: number): string => `s${index}`;

type Shape = Pick<StepRecord, 'id' | 'depends_on' | 'compensation'>;

export function planGraphOf(steps: readonly Shape[], direction: Direction): ElkNode {
  const indexes = new Map(steps.map(({ id }, index) => [id, index]));
  return {
    id: 'plan',
    layoutOptions: {
      'elk.algorithm': 'layered',
      'elk.direction': direction,
      'elk.edgeRouting': 'ORTHOGONAL',
      'elk.padding': '[top=14,left=14,bottom=14,right=14]',
      'elk.spacing.nodeNode': '28',
      'elk.layered.spacing.nodeNodeBetweenLayers': '52',
      'elk.layered.considerModelOrder.strategy': 'NODES_AND_EDGES',
    },
    children: steps.map(({ compensation }, index) => ({
      id: nodeId(index),
      width: WIDTH,
      height: compensation === undefined ? HEIGHT : HEIGHT + UNDO_HEIGHT,
    })),
    edges: steps.flatMap(({ depends_on }, index) =>
      depends_on.map((before) => ({
        id: `${nodeId(indexes.get(before) as number)} ${nodeId(index)}`,
        sources: [nodeId(indexes.get(before) as number)],
        targets: [nodeId(index)],
      })),
    ),
  };
}

export function drawingOf(
  steps: readonly Shape[],
  { width = 0, height = 0, children = [], edges = [] }: ElkNode,
): PlanDrawing {
  const stepAt = (node: string): string => steps[Number(node.slice(1))]?.id ?? node;
  return {
    width,
    height,
    steps: new Map(
      children.map(({ id, x = 0, y = 0, width: wide = 0, height: high = 0 }) => [
        stepAt(id),
        { id: stepAt(id), x, y, width: wide, height: high },
      ]),
    ),
    dependencies: edges.map(({ id, sources, targets, sections = [] }) => ({
      id,
      from: stepAt(sources[0] ?? ''),
      to: stepAt(targets[0] ?? ''),
      points: sections.flatMap(({ startPoint, bendPoints = [], endPoint }) => [startPoint, ...bendPoints, endPoint]),
    })),
  };
}
