import { useCallback } from 'react';
import type { listMembers } from '../../../src/operations/identity/members.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { abbreviateId } from '../ui/text-format.ts';

/** Display names of users. Only admins can see the email addresses of other members. */
export function useUserNames(): (id: string) => string {
  const { me, may } = useSession();
  const { data } = useGet<ResponseBody<typeof listMembers>>('/v1/tenant/members?limit=200', { enabled: may('admin') });
  return useCallback(
    (id) => {
      if (id === me.user.id) return 'you';
      if (id === 'twinkeep') return 'the service';
      return data?.members.find((member) => member.id === id)?.email ?? `user ${abbreviateId(id)}`;
    },
    [data, me.user.id],
  );
}
