import { useBatchedRefetch } from '../api/use-batched-refetch.ts';
import { useStream } from '../live/use-stream.ts';
import { useSession } from '../session.tsx';

/** Updates within this time cause one refetch. */
const BATCH_MS = 150;

/** Refetches paths that start with `path` on plan updates, optionally of one plan. Viewers have no stream. */
export function usePlanUpdates(path: string, id: string | null = null): void {
  const { may } = useSession();
  const refresh = useBatchedRefetch([path], BATCH_MS);
  useStream({
    path: '/ws/state',
    query: { events: 'plan' },
    onMessage: (update) => (id === null || (update as { plan_id: string }).plan_id === id) && refresh(),
    onOpen: refresh,
    enabled: may('user'),
  });
}
