import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { invalidatePaths } from '../api/queries.ts';
import { useStream } from '../live/use-stream.ts';
import { useSession } from '../session.tsx';

/** Many steps in one moment are one question. */
const BATCH_MS = 150;

/** Asks anew for what begins with `path` as plans go on; with `id` only as that one does. Viewers hear no stream. */
export function usePlanUpdates(path: string, id: string | null = null): void {
  const { may } = useSession();
  const queries = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(
    () => () => {
      clearTimeout(timer.current);
      timer.current = undefined;
    },
    [],
  );
  const anew = (): void => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      void invalidatePaths(queries, [path]);
    }, BATCH_MS);
  };
  useStream({
    path: '/ws/state',
    query: { events: 'plan' },
    onMessage: (told) => (id === null || (told as { plan_id: string }).plan_id === id) && anew(),
    onOpen: anew,
    enabled: may('user'),
  });
}
