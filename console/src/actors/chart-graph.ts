import type { ElkNode } from 'elkjs/lib/elk-api.js';
import type { Machine } from '../api/answer-types.ts';
import { type Point, textWidth } from '../graph/path.ts';
import { leafOf } from './actor-display.ts';
import { labelOf, stateTitle } from './machine-words.ts';

// Converts a machine's statechart to a graph for the layout library, and the laid-out graph to a drawing.

export type MachineTransition = Machine['transitions'][number];

export interface DrawnState {
  path: string;
  title: string;
  description: string;
  kind: 'state' | 'group' | 'final' | 'start' | 'any';
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface DrawnArrow {
  id: string;
  from: string;
  to: string;
  /** All transitions from one state to another share an arrow. */
  transitions: readonly MachineTransition[];
  points: readonly Point[];
  label: { lines: readonly string[]; x: number; y: number; width: number; height: number } | null;
}

export interface Drawing {
  width: number;
  height: number;
  /** Outer states first. */
  states: readonly DrawnState[];
  arrows: readonly DrawnArrow[];
}

const FONT = '550 14px system-ui, sans-serif';
const LABEL_FONT = '650 12px system-ui, sans-serif';
const LABEL_LINE = 16;
const MAX_LABEL_LINES = 3;

/** The parallel regions of a machine, or the machine itself. Each is a separate drawing. */
export const regionsOf = ({ type, states }: Machine): string[] =>
  type === 'parallel' ? states.map(({ state }) => state).filter((path) => !path.includes('.')) : [''];

const parentOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('.')));
const isIn = (path: string, region: string): boolean => region === '' || path.startsWith(`${region}.`);

/** Pseudo-states at the ends of arrows: the initial state of a group, and any state inside it. */
const START = '#start';
const ANY = '#any';

interface Arrow {
  id: string;
  from: string;
  to: string;
  transitions: MachineTransition[];
}

/**
 * Arrows of one region. A transition from a group to a state inside it starts at an "any" pseudo-state: an arrow from the
 * group's border inwards would look like one that enters the group.
 */
function arrowsIn({ transitions }: Machine, region: string): Arrow[] {
  const arrows = new Map<string, Arrow>();
  for (const transition of transitions) {
    const { from, to } = transition;
    if (to === null || !isIn(to, region) || !(from === region || isIn(from, region))) continue;
    const start = from === region || to.startsWith(`${from}.`) ? from + ANY : from;
    const id = `${start}→${to}`;
    const arrow = arrows.get(id) ?? { id, from: start, to, transitions: [] };
    arrow.transitions.push(transition);
    arrows.set(id, arrow);
  }
  return [...arrows.values()];
}

function linesOf({ kind }: Machine, transitions: readonly MachineTransition[]): string[] {
  const lines = [...new Set(transitions.map((transition) => labelOf(kind, transition)))];
  // Labels determine the width of the drawing.
  if (lines.length === 1) return lines.flatMap((line) => line.split(/ (?=\[)/));
  return lines.length <= MAX_LABEL_LINES
    ? lines
    : [...lines.slice(0, MAX_LABEL_LINES - 1), `and ${lines.length - MAX_LABEL_LINES + 1} more`];
}

export function chartGraphOf(
  machine: Machine,
  region: string,
  direction: 'DOWN' | 'RIGHT',
): { graph: ElkNode; read(laid: ElkNode): Drawing } {
  const states = machine.states.filter(({ state }) => isIn(state, region));
  const arrows = arrowsIn(machine, region);
  const signs = new Set(arrows.flatMap(({ from }) => (from.endsWith(ANY) ? [from] : [])));
  const starts = [region, ...states.filter(({ type }) => type === 'compound').map(({ state }) => state)];
  const labels = new Map(arrows.map(({ id, transitions }) => [id, linesOf(machine, transitions)]));

  const nodesIn = (group: string): ElkNode[] => [
    ...(starts.includes(group) ? [{ id: group + START, width: 12, height: 12 }] : []),
    ...(signs.has(group + ANY) ? [{ id: group + ANY, width: 40, height: 22 }] : []),
    ...states.filter(({ state }) => parentOf(state) === group).map(({ state }) => nodeOf(state)),
  ];

  function nodeOf(path: string): ElkNode {
    const children = nodesIn(path).filter(({ id }) => !id.startsWith(path + START) || isGroup(path));
    const width = Math.ceil(textWidth(stateTitle(leafOf(path)), FONT)) + 32;
    if (!isGroup(path)) return { id: path, width, height: 38 };
    return {
      id: path,
      children,
      layoutOptions: { 'elk.padding': '[top=40,left=18,bottom=18,right=18]', 'elk.nodeSize.minimum': `(${width},60)` },
    };
  }
  const isGroup = (path: string): boolean => states.some(({ state }) => parentOf(state) === path);

  const graph: ElkNode = {
    id: '#region',
    layoutOptions: {
      'elk.algorithm': 'layered',
      'elk.direction': direction,
      'elk.hierarchyHandling': 'INCLUDE_CHILDREN',
      'elk.edgeRouting': 'ORTHOGONAL',
      'elk.layered.spacing.nodeNodeBetweenLayers': '34',
      'elk.spacing.nodeNode': '30',
      'elk.spacing.edgeNode': '16',
      'elk.spacing.edgeEdge': '12',
      'elk.layered.spacing.edgeNodeBetweenLayers': '14',
      'elk.edgeLabels.placement': 'CENTER',
      'elk.layered.nodePlacement.strategy': 'NETWORK_SIMPLEX',
      'elk.padding': '[top=12,left=12,bottom=12,right=12]',
    },
    children: nodesIn(region),
    edges: [
      ...states
        .filter(({ initial, state }) => initial && starts.includes(parentOf(state)))
        .map(({ state }) => ({ id: `start ${state}`, sources: [parentOf(state) + START], targets: [state] })),
      ...arrows.map(({ id, from, to }) => ({
        id,
        sources: [from],
        targets: [to],
        labels: [sizeOf(labels.get(id) ?? [])],
      })),
    ],
  };

  function read(laid: ElkNode): Drawing {
    const drawn: DrawnState[] = [];
    const walk = (nodes: readonly ElkNode[]): void => {
      for (const { id, x = 0, y = 0, width = 0, height = 0, children = [] } of nodes) {
        const state = states.find(({ state }) => state === id);
        const kind = id.endsWith(START)
          ? 'start'
          : id.endsWith(ANY)
            ? 'any'
            : state?.final
              ? 'final'
              : children.length > 0
                ? 'group'
                : 'state';
        const title = kind === 'any' ? 'any' : kind === 'start' ? '' : stateTitle(leafOf(id));
        drawn.push({ path: id, title, description: state?.description ?? '', kind, x, y, width, height });
        walk(children);
      }
    };
    walk(laid.children ?? []);
    const found = (laid.edges ?? []).map(({ id, sections = [], labels: placed = [], sources, targets }): DrawnArrow => {
      const points = sections.flatMap(({ startPoint, bendPoints = [], endPoint }) => [
        startPoint,
        ...bendPoints,
        endPoint,
      ]);
      const arrow = arrows.find((one) => one.id === id);
      const [place] = placed;
      const lines = labels.get(id);
      return {
        id,
        from: sources[0] ?? '',
        to: targets[0] ?? '',
        transitions: arrow?.transitions ?? [],
        points,
        label:
          place === undefined || lines === undefined
            ? null
            : { lines, x: place.x ?? 0, y: place.y ?? 0, width: place.width ?? 0, height: place.height ?? 0 },
      };
    });
    return { width: laid.width ?? 0, height: laid.height ?? 0, states: drawn, arrows: found };
  }

  return { graph, read };
}

const sizeOf = (lines: readonly string[]) => ({
  text: lines.join('\n'),
  width: Math.ceil(Math.max(0, ...lines.map((line) => textWidth(line, LABEL_FONT)))) + 10,
  height: lines.length * LABEL_LINE + 4,
});

/** The state that the end of an arrow refers to. */
export const stateAt = (end: string): string => end.replace(/#(start|any)$/, '');
