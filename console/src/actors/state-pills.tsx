import { Pill } from '../ui/feedback.tsx';
import { leafOf, pathsIn, toneOf } from './actor-display.ts';
import { stateTitle } from './machine-words.ts';

/** The current states of an actor, one per region. */
export const StatePills = ({ state }: { state: string }) => (
  <span className="pills">
    {pathsIn(state).map((path) => (
      <Pill key={path} tone={toneOf(path)} title={path}>
        {stateTitle(leafOf(path))}
      </Pill>
    ))}
  </span>
);
