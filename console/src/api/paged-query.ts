import { type InfiniteData, type QueryClient, useInfiniteQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useRef } from 'react';
import { requestJson } from './client.ts';
import type { Problem } from './problem.ts';

// Paged lists with infinite scrolling: the next page is requested at the end of the last one.

export interface PagedQuery<Page, Row> {
  firstPage: Page | null;
  rows: readonly Row[];
  /** The last page is loaded. */
  isComplete: boolean;
  problem: Problem | null;
  isFetching: boolean;
  loadMore(): void;
  reload(): void;
}

const keyOf = (path: string) => [path, 'pages'] as const;

/** `path` includes the query: `/v1/devices?limit=200`. */
export function usePagedQuery<Page extends { next_cursor: string | null }, Row>(
  path: string,
  rowsOf: (page: Page) => readonly Row[],
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
    staleTime: 30_000,
    // It would refetch every loaded page.
    refetchOnWindowFocus: false,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: `rowsOf` does not change
  const rows = useMemo(() => data?.pages.flatMap((page) => rowsOf(page)) ?? [], [data]);
  // The next page is requested once at the end of the list, which may be while the loaded pages are loaded again.
  const isRequested = useRef(false);
  useEffect(() => {
    if (isFetching || !isRequested.current) return;
    isRequested.current = false;
    if (hasNextPage && error === null) void fetchNextPage();
  }, [isFetching, hasNextPage, error, fetchNextPage]);
  return {
    firstPage: data?.pages[0] ?? null,
    rows,
    isComplete: data !== undefined && !hasNextPage,
    problem: error,
    isFetching,
    loadMore() {
      if (isFetching) isRequested.current = true;
      else if (hasNextPage) void fetchNextPage();
    },
    reload: () => void refetch(),
  };
}

/** Updates cached pages in place, from a stream message. */
export function updatePages<Page>(queries: QueryClient, path: string, change: (page: Page) => Page): void {
  queries.setQueryData<InfiniteData<Page>>(keyOf(path), (data) => data && { ...data, pages: data.pages.map(change) });
}
