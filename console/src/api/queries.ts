import {
  QueryClient,
  type UseMutationResult,
  type UseQueryResult,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query';
import { useState } from 'react';
import { type Method, requestJson } from './client.ts';
import { IdempotentSender } from './idempotent-sender.ts';
import { Problem } from './problem.ts';

/** Tries again what may go better by itself: no answer, a busy service. */
const mayRetry = (failures: number, error: unknown): boolean =>
  failures < 3 && error instanceof Problem && (error.status === 0 || error.status === 429 || error.status >= 500);

const retryDelayMs = (failures: number, error: unknown): number =>
  error instanceof Problem && error.retryAfterS !== null
    ? error.retryAfterS * 1000
    : Math.min(1_000 * 2 ** failures, 15_000);

export const makeQueryClient = (): QueryClient =>
  new QueryClient({
    defaultOptions: {
      queries: { retry: mayRetry, retryDelay: retryDelayMs, staleTime: 2_000, refetchOnWindowFocus: true },
      mutations: { retry: false },
    },
  });

export interface GetOptions {
  /** Asked again so often, in milliseconds, while the page is looked at. */
  refetchIntervalMs?: number;
  /** False: not asked at all. */
  enabled?: boolean;
}

/** What a GET answers, by its path; the key of what is remembered is the path, too. */
export const useGet = <T>(
  path: string,
  { refetchIntervalMs, enabled = true }: GetOptions = {},
): UseQueryResult<T, Problem> =>
  useQuery<T, Problem>({
    queryKey: [path],
    queryFn: () => requestJson<T>('GET', path),
    enabled: enabled,
    ...(refetchIntervalMs !== undefined && { refetchInterval: refetchIntervalMs }),
  });

export interface Change {
  method: Exclude<Method, 'GET'>;
  path: string;
  body?: unknown;
  file?: Blob;
  headers?: Record<string, string>;
}

/** A change; afterwards everything whose path begins with one of `stale` is asked for anew. */
export function useChange<T = unknown>(stale: readonly string[] = []): UseMutationResult<T, Problem, Change> {
  const queries = useQueryClient();
  const [once] = useState(() => new IdempotentSender());
  return useMutation<T, Problem, Change>({
    mutationFn: ({ method, path, file, body, headers }) =>
      once.send({ text: JSON.stringify([method, path, body, headers]), file }, (key) =>
        requestJson<T>(method, path, { body, file, headers: { ...headers, 'idempotency-key': key } }),
      ),
    onSuccess: () => invalidatePaths(queries, stale),
  });
}

/** Asks anew for everything whose path begins with one of these. */
export async function invalidatePaths(queries: QueryClient, stale: readonly string[]): Promise<void> {
  if (stale.length === 0) return;
  await queries.invalidateQueries({
    predicate: ({ queryKey: [path] }) => typeof path === 'string' && stale.some((begin) => path.startsWith(begin)),
  });
}
