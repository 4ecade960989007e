import type { z } from 'zod';
import { isFinalPlanStatus, stepPhaseOf } from '../../../domain/plan.ts';
import type { Milliseconds } from '../../../domain/values.ts';
import { findPlan, type planRecord, planRecordOf } from '../../../operations/plans/plan-view.ts';
import { cancelPlan } from '../../../operations/plans/plans.ts';
import type { McpToolCall } from './tool.ts';

export type Plan = z.infer<typeof planRecord>;

/**
 * How long a call waits for its plan: long enough for short plans to finish, and shorter than the client's request
 * timeout, which would cancel the plan. A client that receives progress notifications waits longer.
 */
const WAIT_MS: Milliseconds = 3_000;
const WAIT_WITH_PROGRESS_MS: Milliseconds = 45_000;

/** One wait of a tool call for its plan: reads the plan after each change and reports the progress to the client. */
export class PlanWait {
  readonly #call: McpToolCall;
  readonly #ended = Promise.withResolvers<void>();
  /** Last known state. */
  #plan: Plan;
  #reportedSteps = 0;
  #isReading = false;
  #readAgain = false;

  constructor(call: McpToolCall, created: Plan) {
    this.#call = call;
    this.#plan = created;
  }

  /**
   * Resolves with the last known state when the plan is over or waits for a user, the time limit is reached, or the
   * service stops. A cancelled call cancels the plan.
   */
  async run(): Promise<Plan> {
    const { services, client } = this.#call;
    const unsubscribe = services.actors.subscribe('plan.changed', ({ planId }) => {
      if (planId === this.#plan.id) this.#refresh();
    });
    const timer = setTimeout(this.#ended.resolve, client.reportProgress === null ? WAIT_MS : WAIT_WITH_PROGRESS_MS);
    const onCancelled = () => void this.#cancelPlan();
    const onStopping = () => void this.#readAndEnd();
    client.cancelled.addEventListener('abort', onCancelled, { once: true });
    client.stopping.addEventListener('abort', onStopping, { once: true });
    if (client.stopping.aborted) onStopping();
    else if (client.cancelled.aborted) onCancelled();
    else this.#refresh();
    await this.#ended.promise;
    unsubscribe();
    clearTimeout(timer);
    client.cancelled.removeEventListener('abort', onCancelled);
    client.stopping.removeEventListener('abort', onStopping);
    return this.#plan;
  }

  /** Reads the plan, or reads it again after the read in progress. */
  #refresh(): void {
    if (this.#isReading) {
      this.#readAgain = true;
      return;
    }
    this.#isReading = true;
    this.#read()
      .catch(() => {}) // the last known state is returned
      .then(() => {
        this.#isReading = false;
        if (isFinalOrAwaitingUser(this.#plan)) this.#ended.resolve();
        else if (this.#readAgain) this.#refresh();
      });
  }

  async #read(): Promise<void> {
    const { services, caller } = this.#call;
    do {
      this.#readAgain = false;
      const found = await findPlan(services, caller, this.#plan.id);
      if (found.ok) this.#plan = planRecordOf(found.value.snapshot.context);
      this.#reportProgress();
    } while (this.#readAgain && !isFinalOrAwaitingUser(this.#plan));
  }

  #reportProgress(): void {
    const { steps, status } = this.#plan;
    const finalSteps = steps.filter((step) => stepPhaseOf(step.status) === 'final').length;
    if (finalSteps <= this.#reportedSteps) return;
    this.#reportedSteps = finalSteps;
    this.#call.client.reportProgress?.(finalSteps, steps.length, `The plan is ${status}.`);
  }

  /** A plan that is over by now is not changed. */
  async #cancelPlan(): Promise<void> {
    const { perform, caller } = this.#call;
    const input = { id: this.#plan.id, reason: 'The client cancelled the call.' };
    await perform(cancelPlan, { input, caller, keyed: null });
    this.#ended.resolve();
  }

  async #readAndEnd(): Promise<void> {
    await this.#read().catch(() => {}); // the last known state is returned
    this.#ended.resolve();
  }
}

const isFinalOrAwaitingUser = ({ status, steps }: Plan): boolean =>
  isFinalPlanStatus(status) ||
  (status === 'awaiting_confirmation' && !steps.some((step) => stepPhaseOf(step.status) === 'active'));
