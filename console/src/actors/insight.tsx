import type { ReactNode } from 'react';
import type { Json, JsonObject } from '../../../src/domain/values.ts';
import type { ActorRecord, Machine } from '../api/answer-types.ts';
import { Icon } from '../ui/icons.tsx';
import { humanize } from '../ui/text-format.ts';
import { Countdown, Time } from '../ui/time.tsx';
import { isEntered, leafOf, pathsIn } from './actor-display.ts';
import { labelOf, type MachineTransition } from './chart-graph.ts';
import { PrincipalName } from './principal-name.tsx';
import { StatePills } from './state-pills.tsx';
import type { Step } from './steps.ts';

interface Props {
  actor: ActorRecord;
  machine: Machine;
  /** Oldest first. */
  steps: readonly Step[];
}

/** In words: what it is doing, why, and what comes next. */
export const Insight = (props: Props) => (
  <div className="insight">
    <Part title="What it is doing">
      <CurrentState {...props} />
    </Part>
    <Part title="Why">
      <LastTransition {...props} />
    </Part>
    <Part title="What can happen next">
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

/** The entered states of one region, from outside in. */
function CurrentState({ actor, machine }: Props) {
  return (
    <ul className="doing">
      {pathsIn(actor.state).map((path) => {
        const names = path.split('.');
        const region = machine.type === 'parallel' ? names[0] : undefined;
        const around = names.map((_, n) => names.slice(0, n + 1).join('.'));
        const words = machine.states.filter(({ state, description }) => around.includes(state) && description !== '');
        return (
          <li key={path}>
            <p className="doing-state">
              {region !== undefined && <span className="quiet">{humanize(region)}</span>}
              <strong>
                {names
                  .slice(region === undefined ? 0 : 1)
                  .map(humanize)
                  .join(' › ')}
              </strong>
            </p>
            {words.map(({ state, description }) => (
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

/** The step that brought it where it is; what happened since without moving it stands beside. */
function LastTransition({ actor, steps }: Props) {
  const latest = steps.at(-1);
  const moved = steps.findLast(({ from, to }) => from !== to);
  if (latest === undefined || moved === undefined) {
    return <p className="quiet">Its journal is not kept any more: what happened before is over.</p>;
  }
  return (
    <>
      <p>
        {moved.from === null ? 'It began with ' : null}
        <StepCause step={moved} actor={actor} />
        {moved.from === null ? null : ' brought it here'}
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
          Before, it was <StatePills state={moved.from} />
        </p>
      )}
      {latest !== moved && latest.at !== null && (
        <p className="quiet small">
          Since then: <StepCause step={latest} actor={actor} />, <Time at={latest.at} />, which left it as it was.
        </p>
      )}
    </>
  );
}

const StepCause = ({ step: { event, by }, actor }: { step: Step; actor: ActorRecord }) => (
  <>
    {event === null ? 'A message of its own' : <code>{event}</code>}
    {by !== null && (
      <>
        {' '}
        by <PrincipalName id={by} actor={actor} />
      </>
    )}
  </>
);

/** Where actors keep why something is as it is, in words. */
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
  const events = actor.next_events.filter((event) => !isDelayedEvent(event));
  const moving = events.filter((event) => transitionsFor(machine, entered, event).length > 0);
  const staying = events.filter((event) => !moving.includes(event));
  // What a machine raises for itself follows an event that it takes.
  const own = machine.transitions.filter(
    ({ event, from, to }) => event.startsWith('self.') && to !== null && isEntered(from, entered),
  );
  const follows = [...new Set(own.map(({ to }) => to as string))];
  if (timers.length + events.length === 0) return <p className="quiet">Nothing: this is its last state.</p>;
  return (
    <>
      {timers.length > 0 && (
        <ul className="timers">
          {timers.map(({ event, due_at }) => (
            <li key={`${event} ${due_at}`}>
              <Icon name="clock" />
              <span>
                {humanize(event)} <Countdown until={due_at} />
                <TransitionTargets machine={machine} entered={entered} event={event} />
              </span>
            </li>
          ))}
        </ul>
      )}
      <ul className="events">
        {moving.map((event) => (
          <li key={event}>
            <code>{event}</code>
            <TransitionTargets machine={machine} entered={entered} event={event} />
          </li>
        ))}
      </ul>
      {staying.length > 0 && (
        <p className="quiet small">
          {moving.length + timers.length + follows.length === 0
            ? `Nothing moves it any more. It still takes ${staying.join(', ')}.`
            : follows.length === 0
              ? `It also takes ${staying.join(', ')}, and stays where it is.`
              : `It also takes ${staying.join(', ')}; what it finds then may move it to ${follows.map((to) => humanize(leafOf(to))).join(' or ')}.`}
        </p>
      )}
    </>
  );
}

const isDelayedEvent = (event: string): boolean => event.startsWith('after ');

/** The ways out of where it is that an event is. */
const transitionsFor = (machine: Machine, entered: readonly string[], event: string): MachineTransition[] =>
  machine.transitions.filter((one) => one.event === event && one.to !== null && isEntered(one.from, entered));

/** Where an event would lead from here. */
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
    <span className="quiet small" title={moves.map(labelOf).join('\n')}>
      {' → '}
      {targets.map((to) => humanize(leafOf(to))).join(' or ')}
    </span>
  );
}
