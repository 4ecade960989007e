import type { ActorRecord } from '../api/answer-types.ts';
import { useUserNames } from '../people/user-names.ts';

/** Name of the principal of a step: a user, the actor itself, its device, or the service. */
export function PrincipalName({ id, actor }: { id: string; actor: ActorRecord }) {
  const nameOf = useUserNames();
  if (id === actor.id) return <>itself</>;
  if (id === actor.context?.device_id) return <>the device</>;
  return <span title={id}>{nameOf(id)}</span>;
}
