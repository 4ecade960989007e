import { type InfiniteData, type QueryClient, useInfiniteQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { requestJson } from './client.ts';
import type { Problem } from './problem.ts';

// A list that is as long as it is: the next page is asked for where somebody gets to the end of the last.

export interface PagedQuery<Page, Row> {
  firstPage: Page | null;
  rows: readonly Row[];
  /** There is nothing below. */
  isComplete: boolean;
  problem: Problem | null;
  loadMore(): void;
  reload(): void;
}

const keyOf = (path: string) => [path, 'pages'] as const;

/** `path` with its query, as `/v1/devices?limit=200`. */
export function usePagedQuery<Page extends { next_cursor: string | null }, Row>(
  path: string,
  rowsOf: (page: Page) => readonly Row[],
  { when = true }: { when?: boolean } = {},
): PagedQuery<Page, Row> {
  const { data, error, hasNextPage, isFetching, fetchNextPage, refetch } = useInfiniteQuery<
    Page,
    Problem,
    InfiniteData<Page>,
    ReturnType<typeof keyOf>,
    string | null
  >({
    queryKey: keyOf(path),
    queryFn: ({ pageParam }) =>
      requestJson<Page>('GET', pageParam === null ? path : `${path}&cursor=${encodeURIComponent(pageParam)}`),
    initialPageParam: null,
    getNextPageParam: ({ next_cursor }) => next_cursor,
    enabled: when,
    staleTime: 30_000,
    // All the pages that were loaded would be loaded anew.
    refetchOnWindowFocus: false,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: how rows are found in a page does not change
  const rows = useMemo(() => data?.pages.flatMap((page) => rowsOf(page)) ?? [], [data]);
  return {
    firstPage: data?.pages[0] ?? null,
    rows,
    isComplete: data !== undefined && !hasNextPage,
    problem: error,
    loadMore: () => void (hasNextPage && !isFetching && fetchNextPage()),
    reload: () => void refetch(),
  };
}

/** Changes pages in place, by what a stream told. */
export function updatePages<Page>(queries: QueryClient, path: string, change: (page: Page) => Page): void {
  queries.setQueryData<InfiniteData<Page>>(keyOf(path), (data) => data && { ...data, pages: data.pages.map(change) });
}
