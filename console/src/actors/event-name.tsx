import type { ActorKind } from '../../../src/machines/outputs.ts';
import { eventTitle } from './machine-words.ts';

/** An event in plain words, followed by its identifier. */
export const EventName = ({ kind, event }: { kind: ActorKind; event: string }) => (
  <span className="event-name">
    {eventTitle(kind, event)} <code className="quiet small">{event}</code>
  </span>
);
