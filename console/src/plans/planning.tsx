import type { PlannerPhase } from '../../../src/domain/cognition.ts';
import { Fact, Facts, ObjectMembers } from '../ui/values.tsx';
import type { PlanRecord } from './plan-display.ts';

const phases: Readonly<Record<PlannerPhase, string>> = {
  thinking: 'planning',
  suspended: 'suspended',
  done: 'finished',
};

/** The part of an agent in a plan: the goal, its progress, and what it says at the end. Nothing for a plan without one. */
export function Planning({ of: cognition }: { of: PlanRecord['cognition'] }) {
  if (cognition === undefined) return null;
  const { phase, goal, reason, summary, final_state, error } = cognition;
  return (
    <section className="card" aria-labelledby="planning">
      <header>
        <h2 id="planning">Planning</h2>
      </header>
      <Facts>
        {goal !== undefined && <Fact name="Goal">{goal}</Fact>}
        <Fact name="Agent">{phases[phase]}</Fact>
        {reason !== undefined && <Fact name="Reason">{reason}</Fact>}
        {summary !== undefined && <Fact name="Summary">{summary}</Fact>}
        {final_state !== undefined && (
          <Fact name="Final state">
            {Object.keys(final_state).length === 0 ? 'none' : <ObjectMembers of={final_state} />}
          </Fact>
        )}
        {error !== undefined && (
          <Fact name="Error">
            {error.detail} <code>{error.code}</code>
          </Fact>
        )}
      </Facts>
    </section>
  );
}
