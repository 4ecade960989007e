import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { invalidatePaths } from './queries.ts';

/**
 * Returns a function that refetches what starts with one of `paths`: once for all calls within `batchMs`, and one refetch
 * at a time.
 */
export function useBatchedRefetch(paths: readonly string[], batchMs: number): () => void {
  const queries = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const isStale = useRef(false);
  useEffect(
    () => () => {
      clearTimeout(timer.current);
      timer.current = undefined;
    },
    [],
  );
  const schedule = (): void => {
    isStale.current = true;
    timer.current ??= setTimeout(() => void refetch(), batchMs);
  };
  const refetch = async (): Promise<void> => {
    isStale.current = false;
    await invalidatePaths(queries, paths);
    timer.current = undefined;
    if (isStale.current) schedule();
  };
  return schedule;
}
