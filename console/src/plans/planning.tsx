import type { PlannerPhase } from '../../../src/domain/cognition.ts';
import { isObject } from '../../../src/domain/json/value.ts';
import { DeviceName } from '../devices/device-name.tsx';
import { Fact, Facts, ObjectMembers, Value } from '../ui/values.tsx';
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
            {Object.keys(final_state).length === 0 ? 'none' : <FinalState of={final_state} />}
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

/** The state that the agent reports at the end: that of each device by its name, and what else it has. */
function FinalState({ of }: { of: Readonly<Record<string, unknown>> }) {
  const { devices, ...others } = of;
  if (!isObject(devices)) return <ObjectMembers of={of} />;
  return (
    <>
      <Facts>
        {Object.entries(devices).map(([id, state]) => (
          <div key={id}>
            <dt>
              <DeviceName id={id} />
            </dt>
            <dd>
              <Value of={state} />
            </dd>
          </div>
        ))}
      </Facts>
      <ObjectMembers of={others} />
    </>
  );
}
