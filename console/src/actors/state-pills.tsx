import { Pill } from '../ui/feedback.tsx';
import { humanize } from '../ui/text-format.ts';
import { leafOf, pathsIn, toneOf } from './actor-display.ts';

/** The states that an actor is in, one for each region of its machine. */
export const StatePills = ({ state }: { state: string }) => (
  <span className="pills">
    {pathsIn(state).map((path) => (
      <Pill key={path} tone={toneOf(path)} title={path}>
        {humanize(leafOf(path))}
      </Pill>
    ))}
  </span>
);
