import type { getChangeRequest, listChangeRequests } from '../../../src/operations/changes/change-requests.ts';
import type { changeDryRun } from '../../../src/operations/changes/confirmed-change.ts';
import type { getPolicy } from '../../../src/operations/commands/safety-policy.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';

export type ChangeRequestList = ResponseBody<typeof listChangeRequests>;
export type ChangeRequestEntry = ChangeRequestList['changes'][number];
export type ChangeRequestRecord = ResponseBody<typeof getChangeRequest>['change'];
/** The response to a change that makes something weaker. */
export type PendingChange = (typeof changeDryRun)['_output'];

export const CHANGES = '/v1/change-requests';
export const changePath = (id: string, rest = ''): string => `${CHANGES}/${id}${rest}`;

/** The device that a change is about, or null. */
export const deviceOfChange = (subject: string): string | null =>
  subject.startsWith('device:') ? subject.slice('device:'.length) : null;

/** Whether the policy requires another user to confirm what this user requested. */
export function useNeedsAnother(requestedBy: string): boolean {
  const { me, may } = useSession();
  const { data } = useGet<ResponseBody<typeof getPolicy>>('/v1/tenant/policy', { enabled: may('admin') });
  return data?.policy.confirm_by === 'another_principal' && requestedBy === me.user.id;
}
