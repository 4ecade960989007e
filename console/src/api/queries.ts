import {
  type Query,
  QueryClient,
  type UseMutationResult,
  type UseQueryResult,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query';
import { useState } from 'react';
import { type BackoffLimits, backoffDelay } from '../../../src/domain/backoff.ts';
import { type Method, requestJson } from './client.ts';
import { IdempotentSender } from './idempotent-sender.ts';
import { Problem } from './problem.ts';

/** Retries temporary failures: no response, rate limit, server errors. */
const mayRetry = (failures: number, error: unknown): boolean =>
  failures < 3 && error instanceof Problem && (error.status === 0 || error.status === 429 || error.status >= 500);

const RETRY: BackoffLimits = { firstMs: 1_000, maxMs: 15_000 };

const retryDelayMs = (failures: number, error: unknown): number =>
  error instanceof Problem && error.retryAfterS !== null ? error.retryAfterS * 1000 : backoffDelay(failures + 1, RETRY);

export const makeQueryClient = (): QueryClient =>
  new QueryClient({
    defaultOptions: {
      queries: { retry: mayRetry, retryDelay: retryDelayMs, staleTime: 2_000, refetchOnWindowFocus: true },
      mutations: { retry: false },
    },
  });

export interface GetOptions {
  /** Polling interval in milliseconds, while the page is visible; `false` while there is nothing to poll for. */
  refetchIntervalMs?: number | false;
  /** If false, no request is sent. */
  enabled?: boolean;
}

/** Response of a GET. The path is the cache key. */
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

/** A change. After success, every query whose path starts with one of `stale` is refetched. */
export function useChange<T = unknown>(stale: readonly string[] = []): UseMutationResult<T, Problem, Change> {
  const queries = useQueryClient();
  const [sender] = useState(() => new IdempotentSender());
  return useMutation<T, Problem, Change>({
    // Responses may contain secrets: they are dropped with the component that shows them.
    gcTime: 0,
    mutationFn: ({ method, path, file, body, headers }) =>
      sender.send({ text: JSON.stringify([method, path, body, headers]), file }, (key) =>
        requestJson<T>(method, path, { body, file, headers: { ...headers, 'idempotency-key': key } }),
      ),
    onSuccess: () => invalidatePaths(queries, stale),
  });
}

/** Refetches every query whose path starts with one of `stale`. */
export const invalidatePaths = (queries: QueryClient, stale: readonly string[]): Promise<void> =>
  invalidateWhere(queries, (path) => stale.some((prefix) => path.startsWith(prefix)));

export async function invalidateWhere(queries: QueryClient, isStale: (path: string) => boolean): Promise<void> {
  const predicate = ({ queryKey: [path] }: Query): boolean => typeof path === 'string' && isStale(path);
  // A first request that is under way is not sent again, and may be answered with what was before the change.
  const first = queries
    .getQueryCache()
    .findAll({ predicate, fetchStatus: 'fetching' })
    .filter(({ state }) => state.data === undefined);
  await queries.invalidateQueries({ predicate });
  if (first.length > 0) await queries.invalidateQueries({ predicate: (query) => first.includes(query) });
}

/** Polling interval of data that a stream keeps up to date, for what it does not report and for proxies that close it. */
export const FALLBACK_MS = 60_000;
