import { Pill } from '../ui/feedback.tsx';
import { humanize } from '../ui/text-format.ts';
import { leafOf, pathsIn, toneOf } from './actor-display.ts';

/** The current states of an actor, one per region. */
export const StatePills = ({ state }: { state: string }) => (
  <span className="pills">
    {pathsIn(state).map((path) => (
      <Pill key={path} tone={toneOf(path)} title={path}>
        {humanize(leafOf(path))}
      </Pill>
    ))}
  </span>
);
