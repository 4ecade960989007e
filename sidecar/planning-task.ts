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

/** The last perception update of the scope of a context. */
export interface WorldState {
  devices: readonly Device[];
  memories: readonly Memory[];
}

export interface PlanningTaskParts {
  planner: Planner;
  world(): WorldState;
  send(body: ProposalBody): void;
  /** The end of the context was proposed. Its world is not needed until the service sends it again. */
  onEnded(): void;
  /** The planner threw an error. */
  onPlannerError(error: unknown): void;
}

/** The planning of one context during one stream. */
export interface PlanningTask {
  /** `awaitsSidecar`: the context is in the phase THINKING. */
  updateContext(context: Context, awaitsSidecar: boolean): void;
  updateNode(nodeId: string, to: NodeState, more: { code: string; detail: string }): void;
  handleRejection(nodeId: string, reason: { code: string; detail: string }): void;
  recordOutcome(nodeId: string, outcome: Outcome): void;
  /** The end was proposed and not rejected. */
  hasEnded(): boolean;
  stop(): void;
}

/** Suspension while steps run or wait for approval. The service sends the context again after it. */
const WAIT_S = 900;
/** A rejected end may be proposed again, but not without limit. */
const MAX_END_ATTEMPTS = 3;

const doneStates: ReadonlySet<NodeState> = new Set(['succeeded', 'proposed']);
const activeStates: ReadonlySet<NodeState> = new Set(['pending', 'running', 'awaiting_confirmation']);

/**
 * Runs the planner whenever the context has no step in progress, proposes the steps of its decision, then waits for
 * their results. If a step fails, the service ends the plan.
 */
export function startPlanning(
  first: Context,
  { planner, world, send, onEnded, onPlannerError }: PlanningTaskParts,
): PlanningTask {
  let context = first;
  let planning: AbortController | null = null;
  let stopped = false;
  let ended = false;
  let endAttempts = 0;
  /** Proposed steps that the service has not answered yet. */
  const openSteps = new Map<string, Step>();
  /** For an observation: the reason for the proposed steps, until one of them is rejected. */
  let proposedBecause: string | null = null;
  const refusals: Refusal[] = [];
  const outcomes = new Map<string, Outcome>();

  const nodes = (): Node[] =>
    context.nodes.map((node) => ({ ...node, outcome: outcomes.get(node.id) ?? node.outcome }));
  const isSettled = () => openSteps.size === 0 && context.nodes.every(({ state }) => doneStates.has(state));
  const isBusy = () => openSteps.size > 0 || context.nodes.some(({ state }) => activeStates.has(state));

  function planNext(): void {
    if (stopped || ended || planning !== null || !isSettled()) return;
    if (proposedBecause !== null) {
      end({ complete: proposedBecause, finalState: {} });
      return;
    }
    const controller = new AbortController();
    planning = controller;
    if (planner.timeoutS > 0) send({ suspend: `Planning with the ${planner.name}.`, forS: planner.timeoutS });
    const view: PlannerInput = { ...world(), context: { ...context, nodes: nodes() }, refusals: [...refusals] };
    planner.decide(view, controller.signal).then(
      (decision) => {
        if (controller.signal.aborted) return;
        planning = null;
        apply(decision);
      },
      (error: unknown) => {
        if (controller.signal.aborted) return;
        planning = null;
        onPlannerError(error);
        end({ error: 'The planner failed.', code: 'INTERNAL' });
      },
    );
  }

  function apply(decision: Decision): void {
    if ('failed' in decision) end({ error: decision.failed, code: decision.code });
    else if ('done' in decision) end({ complete: decision.done, finalState: decision.finalState });
    else propose(decision);
  }

  function propose({ steps, because }: Extract<Decision, { because: string }>): void {
    for (const step of steps) {
      openSteps.set(step.id, step);
      send({ step });
    }
    // An observation is completed when the service has accepted every step.
    if (context.kind === 'observation') proposedBecause = because;
    else send({ suspend: `${because} Waiting for ${countSteps(steps.length)}.`.trim(), forS: WAIT_S });
  }

  function end(body: ProposalBody): void {
    ended = true;
    endAttempts += 1;
    outcomes.clear();
    send(body);
    onEnded();
  }

  return {
    updateContext(updated, awaitsSidecar) {
      context = updated;
      for (const { id } of updated.nodes) openSteps.delete(id);
      // The suspension has expired while the planner or a step is still in progress.
      if (awaitsSidecar && !ended && (planning !== null || isBusy())) send({ suspend: 'Still waiting.', forS: WAIT_S });
      planNext();
    },
    updateNode(nodeId, state, { code, detail }) {
      const step = openSteps.get(nodeId);
      openSteps.delete(nodeId);
      const known = context.nodes.find(({ id }) => id === nodeId);
      if (known === undefined && step === undefined) return;
      const node = { ...((known ?? step) as Step), state, code, detail, outcome: null };
      const others = context.nodes;
      context = {
        ...context,
        nodes: known ? others.map((other) => (other === known ? node : other)) : [...others, node],
      };
      planNext();
    },
    handleRejection(nodeId, reason) {
      const step = openSteps.get(nodeId);
      if (step === undefined) {
        // The end was rejected: the context continues with the next update.
        if (nodeId === '' && ended && endAttempts < MAX_END_ATTEMPTS) ended = false;
        return;
      }
      openSteps.delete(nodeId);
      refusals.push({ step, ...reason });
      proposedBecause = null;
      planNext();
    },
    recordOutcome: (nodeId, outcome) => {
      if (!ended) outcomes.set(nodeId, outcome);
    },
    hasEnded: () => ended,
    stop() {
      stopped = true;
      planning?.abort();
    },
  };
}

const countSteps = (steps: number): string => (steps === 1 ? '1 step' : `${steps} steps`);
