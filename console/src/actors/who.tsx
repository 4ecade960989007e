import { useSession } from '../session.tsx';
import { shortId } from './words.ts';

/** Who did something: a user, the device itself, or the service. */
export function Who({ id, self }: { id: string; self: string }) {
  const { me } = useSession();
  if (id === 'twinkeep') return <>Twinkeep itself</>;
  if (id === me.user.id) return <>you</>;
  if (id === self) return <>itself</>;
  return <span title={id}>…{shortId(id)}</span>;
}
