import { useNames } from '../people/names.ts';

/** Who did something: a user, the actor itself, or the service. */
export function Who({ id, self }: { id: string; self: string }) {
  const nameOf = useNames();
  return id === self ? <>itself</> : <span title={id}>{nameOf(id)}</span>;
}
