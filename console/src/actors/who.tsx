import type { ActorRecord } from '../api/shapes.ts';
import { useNames } from '../people/names.ts';

/** Who did something to an actor: a user, the actor itself, its device, or the service. */
export function Who({ id, actor }: { id: string; actor: ActorRecord }) {
  const nameOf = useNames();
  if (id === actor.id) return <>itself</>;
  if (id === actor.context?.device_id) return <>the device</>;
  return <span title={id}>{nameOf(id)}</span>;
}
