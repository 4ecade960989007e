import { Pill } from '../ui/states.tsx';
import { plain } from '../ui/words.ts';
import { leafOf, pathsIn, toneOf } from './words.ts';

/** The states that an actor is in, one for each region of its machine. */
export const StatePills = ({ state }: { state: string }) => (
  <span className="pills">
    {pathsIn(state).map((path) => (
      <Pill key={path} tone={toneOf(path)} title={path}>
        {plain(leafOf(path))}
      </Pill>
    ))}
  </span>
);
