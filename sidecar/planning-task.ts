import type {
  CommandOutcome,
  Context,
  Memory,
  NodeState,
  Planner,
  PlannerDecision,
  PlannerDevice,
  PlannerInput,
  RejectedStep,
  Step,
} from './planner-types.ts';
import type { OutgoingProposal } from './proposal-encoder.ts';

/** The last perception update of the scope of a context. */
export interface WorldState {
  devices: readonly PlannerDevice[];
  memories: readonly Memory[];
}

export interface PlanningTaskParts {
  planner: Planner;
  world(): WorldState;
  send(body: OutgoingProposal): void;
  /** The end of the context was proposed. Its world is not needed until the service sends it again. */
  onEnded(): void;
  /** The planner threw an error. */
  onPlannerError(error: unknown): void;
}

/** Suspension while steps run or wait for approval. The service sends the context again after it. */
const WAIT_S = 900;
/** A rejected end may be proposed again, but not without limit. */
const MAX_END_ATTEMPTS = 3;

/** Whether the planner waits for a step, or may end the context after it. */
const progressOf: Readonly<Record<NodeState, 'active' | 'done' | 'undone'>> = {
  pending: 'active',
  running: 'active',
  awaiting_confirmation: 'active',
  succeeded: 'done',
  failed: 'undone',
  skipped: 'undone',
  compensating: 'undone',
  compensated: 'undone',
  compensation_failed: 'undone',
  rejected: 'undone',
  proposed: 'done',
};

/**
 * The planning of one context during one stream. Runs the planner whenever the context has no step in progress,
 * proposes the steps of its decision, then waits for their results. If a step fails, the service ends the plan.
 */
export class PlanningTask {
  readonly #parts: PlanningTaskParts;
  #context: Context;
  #planning: AbortController | null = null;
  #stopped = false;
  #ended = false;
  #endAttempts = 0;
  /** Proposed steps that the service has not answered yet. */
  readonly #openSteps = new Map<string, Step>();
  /** For an observation: the reason for the proposed steps, until one of them is rejected. */
  #proposedBecause: string | null = null;
  readonly #refusals: RejectedStep[] = [];
  readonly #outcomes = new Map<string, CommandOutcome>();

  constructor(context: Context, parts: PlanningTaskParts) {
    this.#context = context;
    this.#parts = parts;
  }

  /** `awaitsSidecar`: the context is in the phase THINKING. */
  updateContext(context: Context, awaitsSidecar: boolean): void {
    this.#context = context;
    for (const { id } of context.nodes) this.#openSteps.delete(id);
    // The suspension has expired while the planner or a step is still in progress.
    const isWaiting = !this.#ended && (this.#planning !== null || this.#isBusy());
    if (awaitsSidecar && isWaiting) this.#parts.send({ suspend: 'Still waiting.', forS: WAIT_S });
    this.#planNext();
  }

  updateNode(nodeId: string, state: NodeState, { code, detail }: { code: string; detail: string }): void {
    const step = this.#openSteps.get(nodeId);
    this.#openSteps.delete(nodeId);
    const { nodes } = this.#context;
    const known = nodes.find(({ id }) => id === nodeId);
    if (known === undefined && step === undefined) return;
    const node = { ...((known ?? step) as Step), state, code, detail, outcome: null };
    this.#context = {
      ...this.#context,
      nodes: known ? nodes.map((other) => (other === known ? node : other)) : [...nodes, node],
    };
    this.#planNext();
  }

  handleRejection(nodeId: string, reason: { code: string; detail: string }): void {
    const step = this.#openSteps.get(nodeId);
    if (step === undefined) {
      // The end was rejected: the context continues with the next update.
      if (nodeId === '' && this.#ended && this.#endAttempts < MAX_END_ATTEMPTS) this.#ended = false;
      return;
    }
    this.#openSteps.delete(nodeId);
    this.#refusals.push({ step, ...reason });
    this.#proposedBecause = null;
    this.#planNext();
  }

  recordOutcome(nodeId: string, outcome: CommandOutcome): void {
    if (!this.#ended) this.#outcomes.set(nodeId, outcome);
  }

  /** The end was proposed and not rejected. */
  hasEnded(): boolean {
    return this.#ended;
  }

  stop(): void {
    this.#stopped = true;
    this.#planning?.abort();
  }

  #planNext(): void {
    if (this.#stopped || this.#ended || this.#planning !== null || !this.#isSettled()) return;
    if (this.#proposedBecause !== null) {
      this.#end({ complete: this.#proposedBecause, finalState: {} });
      return;
    }
    void this.#runPlanner();
  }

  async #runPlanner(): Promise<void> {
    const { planner, send, onPlannerError } = this.#parts;
    const controller = new AbortController();
    this.#planning = controller;
    if (planner.timeoutS > 0) send({ suspend: `Planning with the ${planner.name}.`, forS: planner.timeoutS });
    const decided = await planner.decide(this.#plannerInput(), controller.signal).then(
      (decision) => ({ decision }),
      (error: unknown) => ({ error }),
    );
    if (controller.signal.aborted) return;
    this.#planning = null;
    if ('decision' in decided) this.#apply(decided.decision);
    else {
      onPlannerError(decided.error);
      this.#end({ error: 'The planner failed.', code: 'INTERNAL' });
    }
  }

  #plannerInput(): PlannerInput {
    const nodes = this.#context.nodes.map((node) => ({
      ...node,
      outcome: this.#outcomes.get(node.id) ?? node.outcome,
    }));
    return { ...this.#parts.world(), context: { ...this.#context, nodes }, refusals: [...this.#refusals] };
  }

  #apply(decision: PlannerDecision): void {
    if ('failed' in decision) this.#end({ error: decision.failed, code: decision.code });
    else if ('done' in decision) this.#end({ complete: decision.done, finalState: decision.finalState });
    else this.#propose(decision);
  }

  #propose({ steps, because }: Extract<PlannerDecision, { because: string }>): void {
    for (const step of steps) {
      this.#openSteps.set(step.id, step);
      this.#parts.send({ step });
    }
    // An observation is completed when the service has accepted every step.
    if (this.#context.kind === 'observation') this.#proposedBecause = because;
    else {
      const waiting = `${because} Waiting for ${countSteps(steps.length)}.`.trim();
      this.#parts.send({ suspend: waiting, forS: WAIT_S });
    }
  }

  #end(body: OutgoingProposal): void {
    this.#ended = true;
    this.#endAttempts += 1;
    this.#outcomes.clear();
    this.#parts.send(body);
    this.#parts.onEnded();
  }

  #isSettled(): boolean {
    return this.#openSteps.size === 0 && this.#context.nodes.every(({ state }) => progressOf[state] === 'done');
  }

  #isBusy(): boolean {
    return this.#openSteps.size > 0 || this.#context.nodes.some(({ state }) => progressOf[state] === 'active');
  }
}

const countSteps = (steps: number): string => (steps === 1 ? '1 step' : `${steps} steps`);
