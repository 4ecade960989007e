import type {
  Context,
  Decision,
  Device,
  Memory,
  Node,
  NodeState,
  Outcome,
  Planner,
  Refusal,
  Step,
  View,
} from './model.ts';
import type { Word } from './speak.ts';

/** What is told of the part of the world that a context stands in. */
export interface Part {
  devices: readonly Device[];
  memories: readonly Memory[];
}

export interface ThoughtParts {
  planner: Planner;
  part(): Part;
  say(word: Word): void;
  /** Its end was said: what it stands in is not needed, unless it is told again. */
  ended(): void;
  /** Something that a planner must not do. */
  broken(error: unknown): void;
}

/** One context in one stream. */
export interface Thought {
  /** How the service tells it now; `turn`: it waits for us. */
  told(context: Context, turn: boolean): void;
  moved(nodeId: string, to: NodeState, more: { code: string; detail: string }): void;
  refused(nodeId: string, why: { code: string; detail: string }): void;
  outcome(nodeId: string, outcome: Outcome): void;
  /** Its end was said, and not refused. */
  isOver(): boolean;
  stop(): void;
}

/** For whatever is under way, an approval among it; the service tells it again after that. */
const WAIT_S = 900;
/** A word about the end that is refused may be said again; something is wrong with one that always is. */
const ENDS = 3;

const settled: ReadonlySet<NodeState> = new Set(['succeeded', 'proposed']);
const underWay: ReadonlySet<NodeState> = new Set(['pending', 'running', 'awaiting_confirmation']);

/**
 * Thinks whenever nothing of the context is under way: what the planner wishes is said, then the world is waited for. A
 * step that fails ends the plan, and the service says so.
 */
export function think(first: Context, { planner, part, say, ended: over, broken }: ThoughtParts): Thought {
  let context = first;
  let thinking: AbortController | null = null;
  let stopped = false;
  let ended = false;
  let ends = 0;
  /** Said, and not answered yet. */
  const open = new Map<string, Step>();
  /** Why that is proposed which an observation led to, once it is said and until some of it is refused. */
  let because: string | null = null;
  const refusals: Refusal[] = [];
  const outcomes = new Map<string, Outcome>();

  const nodes = (): Node[] =>
    context.nodes.map((node) => ({ ...node, outcome: outcomes.get(node.id) ?? node.outcome }));
  const isQuiet = () => open.size === 0 && context.nodes.every(({ state }) => settled.has(state));
  const isBusy = () => open.size > 0 || context.nodes.some(({ state }) => underWay.has(state));

  function consider(): void {
    if (stopped || ended || thinking !== null || !isQuiet()) return;
    if (because !== null) {
      end({ complete: because, finalState: {} });
      return;
    }
    const own = new AbortController();
    thinking = own;
    if (planner.thinksForS > 0) say({ suspend: `The ${planner.name} is asked.`, forS: planner.thinksForS });
    const view: View = { ...part(), context: { ...context, nodes: nodes() }, refusals: [...refusals] };
    planner.next(view, own.signal).then(
      (decision) => {
        if (own.signal.aborted) return;
        thinking = null;
        act(decision);
      },
      (error: unknown) => {
        if (own.signal.aborted) return;
        thinking = null;
        broken(error);
        end({ error: 'The planner failed.', code: 'INTERNAL' });
      },
    );
  }

  function act(decision: Decision): void {
    if ('failed' in decision) end({ error: decision.failed, code: decision.code });
    else if ('done' in decision) end({ complete: decision.done, finalState: decision.finalState });
    else propose(decision);
  }

  function propose({ steps, because: why }: Extract<Decision, { because: string }>): void {
    for (const step of steps) {
      open.set(step.id, step);
      say({ step });
    }
    // It is complete when every step of it was taken.
    if (context.kind === 'observation') because = why;
    else say({ suspend: `${why} Waiting for ${count(steps.length)}.`.trim(), forS: WAIT_S });
  }

  function end(word: Word): void {
    ended = true;
    ends += 1;
    outcomes.clear();
    say(word);
    over();
  }

  return {
    told(now, turn) {
      context = now;
      for (const { id } of now.nodes) open.delete(id);
      // The wait is over, and what is waited for is not.
      if (turn && !ended && (thinking !== null || isBusy())) say({ suspend: 'Still waiting.', forS: WAIT_S });
      consider();
    },
    moved(nodeId, state, { code, detail }) {
      const step = open.get(nodeId);
      open.delete(nodeId);
      const known = context.nodes.find(({ id }) => id === nodeId);
      if (known === undefined && step === undefined) return;
      const node = { ...((known ?? step) as Step), state, code, detail, outcome: null };
      const others = context.nodes;
      context = {
        ...context,
        nodes: known ? others.map((other) => (other === known ? node : other)) : [...others, node],
      };
      consider();
    },
    refused(nodeId, why) {
      const step = open.get(nodeId);
      if (step === undefined) {
        // A word about the end: the context goes on, if it is told again.
        if (nodeId === '' && ended && ends < ENDS) ended = false;
        return;
      }
      open.delete(nodeId);
      refusals.push({ step, ...why });
      because = null;
      consider();
    },
    outcome: (nodeId, outcome) => {
      if (!ended) outcomes.set(nodeId, outcome);
    },
    isOver: () => ended,
    stop() {
      stopped = true;
      thinking?.abort();
    },
  };
}

const count = (steps: number): string => (steps === 1 ? 'a step' : `${steps} steps`);
