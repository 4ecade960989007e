import type { AnyStateMachine, AnyStateNode, AnyTransitionDefinition } from 'xstate';
import { eventText } from '../domain/state-path.ts';
import { readableName } from './chart.ts';

// Renders a machine as a Markdown page: a Mermaid diagram and, for each state, its description and a table of its
// events. It depends only on the chart, so the same chart gives the same text.

export function chartToMarkdown(machine: AnyStateMachine): string {
  const { root } = machine;
  return [`# The ${machine.id} machine`, root.description ?? '', LEGEND, ...regions(root).flatMap(chapter), ''].join(
    '\n\n',
  );
}

/** The complete machine as one Mermaid diagram, with its regions as states. */
export const chartToMermaid = ({ root }: AnyStateMachine): string => stateDiagram(root);

const LEGEND = `An arrow shows its event and, in brackets, its guard; the first guard that holds is taken. A thick border marks
a final state. \`after\` is a timer, stored in the same commit as the state. Events that begin with \`self.\` are raised by the
machine within one transition, to synchronize its regions. Transitions that do not leave their state are listed only in the
tables.`;

const children = (node: AnyStateNode): AnyStateNode[] => Object.values(node.states);
const nodesBelow = (node: AnyStateNode): AnyStateNode[] =>
  children(node).flatMap((child) => [child, ...nodesBelow(child)]);
const regions = (root: AnyStateNode): AnyStateNode[] => (root.type === 'parallel' ? children(root) : [root]);

const mermaid = (region: AnyStateNode): string => ['```mermaid', stateDiagram(region), '```'].join('\n');

function stateDiagram(region: AnyStateNode): string {
  const final = nodesBelow(region).filter((node) => node.type === 'final');
  const marked = final.length > 0 ? [`  class ${final.map(idOf).join(',')} final`] : [];
  const style = final.length > 0 ? ['  classDef final stroke-width:3px'] : [];
  return ['stateDiagram-v2', ...inside(region), ...style, ...marked].join('\n');
}

function inside(node: AnyStateNode): string[] {
  const initial = node.type === 'compound' ? [`[*] --> ${idOf(node.initial.target[0] as AnyStateNode)}`] : [];
  const lines = [...initial, ...children(node).flatMap(shape), ...arrowsBetween(node)];
  return lines.map((line) => `  ${line}`);
}

function shape(node: AnyStateNode): string[] {
  const head = `state "${node.key}" as ${idOf(node)}`;
  return children(node).length > 0 ? [`${head} {`, ...inside(node), '}'] : [head];
}

/**
 * Arrows between the children of `node`. Mermaid cannot draw an arrow across the border of a state, so an arrow from
 * inside a child starts at that child, and an arrow from `node` itself to a child starts at each other child.
 */
function arrowsBetween(node: AnyStateNode): string[] {
  const labels = new Map<string, Set<string>>();
  for (const transition of [node, ...nodesBelow(node)].flatMap(transitionsOf)) {
    const target = transition.target?.[0];
    const to = childOf(node, target);
    const from = childOf(node, transition.source);
    const staysInside = from === to && (transition.source !== to || target !== to);
    if (!to || staysInside) continue;
    const label = `${eventName(transition)}${transition.guard ? ` [${readableName(transition.guard)}]` : ''}`;
    for (const source of from ? [from] : children(node).filter((child) => child !== to)) {
      const arrow = `${idOf(source)} --> ${idOf(to)}`;
      labels.set(arrow, (labels.get(arrow) ?? new Set()).add(label));
    }
  }
  return [...labels].map(([arrow, label]) => `${arrow}: ${[...label].join('<br>')}`);
}

/** The child of `node` that is or contains `inner`. */
const childOf = (node: AnyStateNode, inner: AnyStateNode | undefined): AnyStateNode | undefined =>
  inner && children(node).find((child) => child === inner || nodesBelow(child).includes(inner));

const transitionsOf = (node: AnyStateNode): AnyTransitionDefinition[] => [...node.transitions.values()].flat();

/** The state's path within its region: `written.dispatched`. */
const nameOf = (node: AnyStateNode): string => node.path.slice(node.machine.root.type === 'parallel' ? 1 : 0).join('.');

const idOf = (node: AnyStateNode): string => node.path.join('_');

function chapter(region: AnyStateNode): string[] {
  const named = region.parent !== undefined;
  return [
    ...(named ? [`## ${region.key}`] : []),
    mermaid(region),
    ...(rows(region).length > 0
      ? ['In every state of this region, unless the state itself handles the event:', table(region)]
      : []),
    ...nodesBelow(region).flatMap(section),
  ];
}

function section(node: AnyStateNode): string[] {
  const last = node.type === 'final' ? ' Final.' : '';
  return [`### ${nameOf(node)}`, `${node.description ?? ''}${last}`, ...(rows(node).length > 0 ? [table(node)] : [])];
}

const table = (node: AnyStateNode): string =>
  ['| event | when | goes to | does |', '|---|---|---|---|', ...rows(node)].join('\n');

const eventName = ({ eventType }: AnyTransitionDefinition): string => eventText(eventType);

const isNamed = (text: string): boolean => text !== '';

function rows(node: AnyStateNode): string[] {
  const entry = node.entry.map(readableName).filter(isNamed);
  const exit = node.exit.map(readableName).filter(isNamed);
  return [
    ...(entry.length > 0 ? [row('on entry', '', '', entry)] : []),
    ...transitionsOf(node).map((transition) => {
      const target = transition.target?.[0];
      return row(
        eventName(transition),
        transition.guard ? readableName(transition.guard) : '',
        target ? nameOf(target) : '',
        target || transition.actions.length > 0 ? transition.actions.map(readableName) : ['nothing'],
      );
    }),
    ...(exit.length > 0 ? [row('on exit', '', '', exit)] : []),
  ];
}

const row = (event: string, when: string, to: string, does: string[]): string =>
  `| ${event} | ${when} | ${to} | ${does.join(', ')} |`;
