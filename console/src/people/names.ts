import type { listMembers } from '../../../src/operations/members.ts';
import { useGet } from '../api/queries.ts';
import type { Answer } from '../api/shapes.ts';
import { useSession } from '../session.tsx';
import { endOf } from '../ui/words.ts';

/** What to call whoever did something: only admins may see who the other members are. */
export function useNames(): (id: string) => string {
  const { me, may } = useSession();
  const { data } = useGet<Answer<typeof listMembers>>('/v1/tenant/members?limit=200', { when: may('admin') });
  return (id) => {
    if (id === me.user.id) return 'you';
    if (id === 'twinkeep') return 'the service';
    return data?.members.find((member) => member.id === id)?.email ?? `user ${endOf(id)}`;
  };
}
