import type {
  Context,
  Decision,
  Device,
  Memory,
  Node,
  NodeState,
  Outcome,
  Planner,
  PlannerInput,
  Refusal,
  Step,
} from './planner-types.ts';
import type { ProposalBody } from './proposal-encoder.ts';

/** What is told of the part of the world that a context stands in. */
export interface WorldState {
  devices: readonly Device[];
  memories: readonly Memory[];
}

export interface PlanningTaskParts {
  planner: Planner;
  world(): WorldState;
  send(word: ProposalBody): void;
  /** Its end was said: what it stands in is not needed, unless it is told again. */
  onEnded(): void;
  /** Something that a planner must not do. */
  onPlannerError(error: unknown): void;
}

/** One context in one stream. */
export interface PlanningTask {
  /** How the service tells it now; `turn`: it waits for us. */
  updateContext(context: Context, turn: boolean): void;
  updateNode(nodeId: string, to: NodeState, more: { code: string; detail: string }): void;
  handleRejection(nodeId: string, why: { code: string; detail: string }): void;
  recordOutcome(nodeId: string, outcome: Outcome): void;
  /** Its end was said, and not refused. */
  hasEnded(): boolean;
  stop(): void;
}

/** For whatever is under way, an approval among it; the service tells it again after that. */
const WAIT_S = 900;
/** A word about the end that is refused may be said again; something is wrong with one that always is. */
const MAX_END_ATTEMPTS = 3;

const doneStates: ReadonlySet<NodeState> = new Set(['succeeded', 'proposed']);
const activeStates: ReadonlySet<NodeState> = new Set(['pending', 'running', 'awaiting_confirmation']);

/**
 * Thinks whenever nothing of the context is under way: what the planner wishes is said, then the world is waited for. A
 * step that fails ends the plan, and the service says so.
 */
export function startPlanning(
  first: Context,
  { planner, world, send, onEnded: over, onPlannerError }: PlanningTaskParts,
): PlanningTask {
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
  const isQuiet = () => open.size === 0 && context.nodes.every(({ state }) => doneStates.has(state));
  const isBusy = () => open.size > 0 || context.nodes.some(({ state }) => activeStates.has(state));

  function consider(): void {
    if (stopped || ended || thinking !== null || !isQuiet()) return;
    if (because !== null) {
      end({ complete: because, finalState: {} });
      return;
    }
    const own = new AbortController();
    thinking = own;
    if (planner.timeoutS > 0) send({ suspend: `The ${planner.name} is asked.`, forS: planner.timeoutS });
    const view: PlannerInput = { ...world(), context: { ...context, nodes: nodes() }, refusals: [...refusals] };
    planner.decide(view, own.signal).then(
      (decision) => {
        if (own.signal.aborted) return;
        thinking = null;
        act(decision);
      },
      (error: unknown) => {
        if (own.signal.aborted) return;
        thinking = null;
        onPlannerError(error);
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
      send({ step });
    }
    // It is complete when every step of it was taken.
    if (context.kind === 'observation') because = why;
    else send({ suspend: `${why} Waiting for ${countSteps(steps.length)}.`.trim(), forS: WAIT_S });
  }

  function end(word: ProposalBody): void {
    ended = true;
    ends += 1;
    outcomes.clear();
    send(word);
    over();
  }

  return {
    updateContext(now, turn) {
      context = now;
      for (const { id } of now.nodes) open.delete(id);
      // The wait is over, and what is waited for is not.
      if (turn && !ended && (thinking !== null || isBusy())) send({ suspend: 'Still waiting.', forS: WAIT_S });
      consider();
    },
    updateNode(nodeId, state, { code, detail }) {
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
    handleRejection(nodeId, why) {
      const step = open.get(nodeId);
      if (step === undefined) {
        // A word about the end: the context goes on, if it is told again.
        if (nodeId === '' && ended && ends < MAX_END_ATTEMPTS) ended = false;
        return;
      }
      open.delete(nodeId);
      refusals.push({ step, ...why });
      because = null;
      consider();
    },
    recordOutcome: (nodeId, outcome) => {
      if (!ended) outcomes.set(nodeId, outcome);
    },
    hasEnded: () => ended,
    stop() {
      stopped = true;
      thinking?.abort();
    },
  };
}

const countSteps = (steps: number): string => (steps === 1 ? 'a step' : `${steps} steps`);
