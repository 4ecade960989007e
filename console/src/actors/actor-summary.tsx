import type { ReactNode } from 'react';
import type { Json, JsonObject } from '../../../src/domain/values.ts';
import type { ActorRecord, Machine } from '../api/answer-types.ts';
import { Icon } from '../ui/icons.tsx';
import { Countdown, Time } from '../ui/time.tsx';
import { isEntered, leafOf, pathsIn } from './actor-display.ts';
import type { MachineTransition } from './chart-graph.ts';
import { EventName } from './event-name.tsx';
import { eventTitle, explainedLabelOf, stateTitle } from './machine-words.ts';
import { PrincipalName } from './principal-name.tsx';
import { StatePills } from './state-pills.tsx';
import type { ReplayStep } from './steps.ts';

interface Props {
  actor: ActorRecord;
  machine: Machine;
  /** Oldest first. */
  steps: readonly ReplayStep[];
}

/** Summary of an actor in text: current state, last transition and possible next events. */
export const ActorSummary = (props: Props) => (
  <div className="actor-summary">
    <Part title="Current state">
      <CurrentState {...props} />
    </Part>
    <Part title="Last transition">
      <LastTransition {...props} />
    </Part>
    <Part title="Next">
      <Next {...props} />
    </Part>
  </div>
);

const Part = ({ title, children }: { title: string; children: ReactNode }) => (
  <section className="card">
    <h2>{title}</h2>
    {children}
  </section>
);

/** The entered states of each region, outermost first. */
function CurrentState({ actor, machine }: Props) {
  return (
    <ul className="doing">
      {pathsIn(actor.state).map((path) => {
        const names = path.split('.');
        const region = machine.type === 'parallel' ? names[0] : undefined;
        const around = names.map((_, n) => names.slice(0, n + 1).join('.'));
        const described = machine.states.filter(
          ({ state, description }) => around.includes(state) && description !== '',
        );
        return (
          <li key={path}>
            <p className="doing-state">
              {region !== undefined && <span className="quiet">{stateTitle(region)}</span>}
              <strong>
                {names
                  .slice(region === undefined ? 0 : 1)
                  .map(stateTitle)
                  .join(' › ')}
              </strong>
            </p>
            {described.map(({ state, description }) => (
              <p key={state} className="quiet small">
                {description}
              </p>
            ))}
          </li>
        );
      })}
    </ul>
  );
}

/** The step that led to the current state, and the latest one if that did not change it. */
function LastTransition({ actor, steps }: Props) {
  const latest = steps.at(-1);
  const moved = steps.findLast(({ from, to }) => from !== to);
  if (latest === undefined || moved === undefined) {
    return <p className="quiet">The journal is empty: its entries are older than the retention period.</p>;
  }
  return (
    <>
      <p>
        {moved.from === null ? 'Created by ' : 'Caused by '}
        <StepCause step={moved} actor={actor} />
        {moved.at !== null && (
          <>
            , <Time at={moved.at} />
          </>
        )}
        .
      </p>
      {reasonsIn(actor.context).map((reason) => (
        <p key={reason} className="reason">
          {reason}
        </p>
      ))}
      {moved.from !== null && (
        <p className="quiet small">
          Previous state: <StatePills state={moved.from} />
        </p>
      )}
      {latest !== moved && latest.at !== null && (
        <p className="quiet small">
          Later event without a state change: <StepCause step={latest} actor={actor} />, <Time at={latest.at} />.
        </p>
      )}
    </>
  );
}

const StepCause = ({ step: { event, by }, actor }: { step: ReplayStep; actor: ActorRecord }) => (
  <>
    {event === null ? 'an unrecorded message' : <EventName kind={actor.kind} event={event} />}
    {by !== null && (
      <>
        {' '}
        by <PrincipalName id={by} actor={actor} />
      </>
    )}
  </>
);

/** Paths in the context where actors store a reason in text. */
const reasonPaths: readonly (readonly string[])[] = [
  ['refusal', 'detail'],
  ['confirmation', 'reason'],
  ['answer', 'error', 'message'],
  ['answer', 'error'],
  ['cancelled', 'reason'],
];

function reasonsIn(context: JsonObject | null): string[] {
  const found = reasonPaths.map((path) =>
    path.reduce<Json | undefined>(
      (value, name) => (typeof value === 'object' && value !== null && !Array.isArray(value) ? value[name] : undefined),
      context ?? undefined,
    ),
  );
  return [...new Set(found.filter((value) => typeof value === 'string'))];
}

function Next({ actor, machine }: Props) {
  const entered = pathsIn(actor.state);
  const timers = actor.timers;
  const listed = (names: readonly string[]): string =>
    names.map((name) => `${eventTitle(actor.kind, name)} (${name})`).join(', ');
  const events = actor.next_events.filter((event) => !isDelayedEvent(event));
  const moving = events.filter((event) => transitionsFor(machine, entered, event).length > 0);
  const staying = events.filter((event) => !moving.includes(event));
  // Events that the machine raises itself follow an accepted event.
  const own = machine.transitions.filter(
    ({ event, from, to }) => event.startsWith('self.') && to !== null && isEntered(from, entered),
  );
  const follows = [...new Set(own.map(({ to }) => to as string))];
  if (timers.length + events.length === 0) return <p className="quiet">Nothing: this is a final state.</p>;
  return (
    <>
      {timers.length > 0 && (
        <ul className="timers">
          {timers.map(({ event, due_at }) => (
            <li key={`${event} ${due_at}`}>
              <Icon name="clock" />
              <span>
                <EventName kind={actor.kind} event={event} /> <Countdown until={due_at} />
                <TransitionTargets machine={machine} entered={entered} event={event} />
              </span>
            </li>
          ))}
        </ul>
      )}
      <ul className="events">
        {moving.map((event) => (
          <li key={event}>
            <EventName kind={actor.kind} event={event} />
            <TransitionTargets machine={machine} entered={entered} event={event} />
          </li>
        ))}
      </ul>
      {staying.length > 0 && (
        <p className="quiet small">
          {moving.length + timers.length + follows.length === 0
            ? `No event changes the state. Accepted events: ${listed(staying)}.`
            : follows.length === 0
              ? `Accepted without a state change: ${listed(staying)}.`
              : `Also accepted: ${listed(staying)}; these can lead to ${follows.map((to) => stateTitle(leafOf(to))).join(' or ')}.`}
        </p>
      )}
    </>
  );
}

const isDelayedEvent = (event: string): boolean => event.startsWith('after ');

/** The transitions that an event can take from the entered states. */
const transitionsFor = (machine: Machine, entered: readonly string[], event: string): MachineTransition[] =>
  machine.transitions.filter((one) => one.event === event && one.to !== null && isEntered(one.from, entered));

/** The target states of an event. */
function TransitionTargets({
  machine,
  entered,
  event,
}: {
  machine: Machine;
  entered: readonly string[];
  event: string;
}) {
  const moves = transitionsFor(machine, entered, event);
  if (moves.length === 0) return null;
  const targets = [...new Set(moves.map(({ to }) => to as string))];
  return (
    <span className="quiet small" title={moves.map((one) => explainedLabelOf(machine.kind, one)).join('\n')}>
      {' → '}
      {targets.map((to) => stateTitle(leafOf(to))).join(' or ')}
    </span>
  );
}
