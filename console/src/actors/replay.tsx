import { useEffect, useId, useState } from 'react';
import type { ActorRecord } from '../api/answer-types.ts';
import { Icon, type IconName } from '../ui/icons.tsx';
import { elapsedTime, fullTime, Time } from '../ui/time.tsx';
import { EventName } from './event-name.tsx';
import { eventTitle } from './machine-words.ts';
import { PrincipalName } from './principal-name.tsx';
import { StatePills } from './state-pills.tsx';
import type { ReplayStep as PastStep } from './steps.ts';
import './replay.css';

const STEP_MS = 1_200;

export interface ReplayProps {
  /** Oldest first. */
  entries: readonly PastStep[];
  /** The shown step; null for the current state. */
  at: number | null;
  onSeek(at: number | null): void;
  /** Loads earlier steps; null if there are none. */
  loadEarlier: (() => void) | null;
  actor: ActorRecord;
}

/** A slider through an actor's history, step by step. */
export function Replay({ entries, at, onSeek, loadEarlier, actor }: ReplayProps) {
  const last = entries.length - 1;
  const shown = at ?? last;
  const [playing, setPlaying] = useState(false);
  const id = useId();
  useEffect(() => {
    if (!playing) return;
    const timer = setTimeout(() => {
      if (shown >= last) {
        setPlaying(false);
        onSeek(null);
      } else onSeek(shown + 1);
    }, STEP_MS);
    return () => clearTimeout(timer);
  }, [playing, shown, last, onSeek]);

  const to = (step: number): void => onSeek(step >= last ? null : Math.max(0, step));
  const play = (): void => {
    if (!playing && shown >= last) onSeek(0);
    setPlaying(!playing);
  };
  const entry = entries[shown];
  if (entry === undefined) return null;
  const previous = entries[shown - 1];
  return (
    <div className="replay">
      <div className="replay-bar">
        <StepButton icon="first" name="First step" off={shown === 0} act={() => to(0)} />
        <StepButton icon="back" name="Previous step" off={shown === 0} act={() => to(shown - 1)} />
        <StepButton icon={playing ? 'pause' : 'play'} name={playing ? 'Pause' : 'Replay'} off={last < 1} act={play} />
        <StepButton icon="on" name="Next step" off={shown >= last} act={() => to(shown + 1)} />
        <StepButton icon="last" name="Back to current state" off={at === null} act={() => onSeek(null)} />
        <label htmlFor={id} className="unseen">
          Step in the history
        </label>
        <input
          id={id}
          type="range"
          min={0}
          max={Math.max(1, last)}
          disabled={last < 1}
          value={shown}
          aria-valuetext={`Step ${shown + 1} of ${entries.length}: ${entry.event === null ? 'unrecorded messages' : eventTitle(actor.kind, entry.event)}`}
          onChange={({ target }) => {
            setPlaying(false);
            to(target.valueAsNumber);
          }}
        />
        <span className="quiet small replay-count">
          {shown + 1} / {entries.length}
          {loadEarlier !== null && '+'}
        </span>
      </div>
      <div className={at === null ? 'replay-step' : 'replay-step past'} role="status">
        <p>
          {at !== null && <strong className="past-sign">In the past · </strong>}
          {entry.event === null ? (
            <>Unrecorded messages{entry.at === null && ', at an unknown time after the previous step'}</>
          ) : (
            <EventName kind={actor.kind} event={entry.event} />
          )}
          {entry.by !== null && (
            <>
              {' '}
              by <PrincipalName id={entry.by} actor={actor} />
            </>
          )}
          {entry.at !== null && (
            <span title={fullTime(entry.at)}>
              {' · '}
              <Time at={entry.at} exact />
            </span>
          )}
          {entry.at !== null && previous?.at && (
            <span className="quiet">
              {' '}
              · {elapsedTime(Date.parse(entry.at) - Date.parse(previous.at))} after the previous step
            </span>
          )}
        </p>
        <p>
          {entry.from === null ? (
            'Initial state:'
          ) : entry.from === entry.to ? (
            'Unchanged:'
          ) : (
            <StatePills state={entry.from} />
          )}
          {entry.from !== null && entry.from !== entry.to && <span aria-hidden="true"> → </span>}
          {entry.from !== null && entry.from !== entry.to && <span className="unseen"> to </span>}{' '}
          <StatePills state={entry.to} />
        </p>
      </div>
      {loadEarlier !== null && (
        <button type="button" className="button" onClick={loadEarlier}>
          Load earlier steps
        </button>
      )}
    </div>
  );
}

const StepButton = ({ icon, name, off, act }: { icon: IconName; name: string; off: boolean; act(): void }) => (
  <button type="button" className="icon-button" disabled={off} onClick={act} title={name}>
    <Icon name={icon} />
    <span className="unseen">{name}</span>
  </button>
);
