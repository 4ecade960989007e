import { type InfiniteData, type QueryClient, useInfiniteQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useRef } from 'react';
import { requestJson } from './client.ts';
import type { Problem } from './problem.ts';
import { applyUpdate } from './stream-update.ts';

// Paged lists with infinite scrolling: the next page is requested at the end of the last one.

export interface PagedQuery<Page, Row> {
  firstPage: Page | null;
  /** All loaded rows. */
  rows: readonly Row[];
  /** Those of `rows` that the list shows. */
  shown: readonly Row[];
  /** The last page is loaded. */
  isComplete: boolean;
  problem: Problem | null;
  isFetching: boolean;
  loadMore(): void;
  reload(): void;
}

const keyOf = (path: string | null) => [path, 'pages'] as const;

const showsAll = (): boolean => true;

/**
 * `path` includes the query: `/v1/devices?limit=200`; with null, nothing is loaded. `shows` is the same function as long as the same rows are shown; after
 * a page without shown rows, the next one is loaded.
 */
export function usePagedQuery<Page extends { next_cursor: string | null }, Row>(
  path: string | null,
  rowsOf: (page: Page) => readonly Row[],
  shows: (row: Row) => boolean = showsAll,
): PagedQuery<Page, Row> {
  const { data, error, hasNextPage, isFetching, fetchNextPage, refetch } = useInfiniteQuery<
    Page,
    Problem,
    InfiniteData<Page>,
    ReturnType<typeof keyOf>,
    string | null
  >({
    queryKey: keyOf(path),
    enabled: path !== null,
    queryFn: ({ pageParam }) =>
      requestJson<Page>('GET', `${path}${pageParam === null ? '' : `&cursor=${encodeURIComponent(pageParam)}`}`),
    initialPageParam: null,
    getNextPageParam: ({ next_cursor }) => next_cursor,
    staleTime: 30_000,
    // It would refetch every loaded page.
    refetchOnWindowFocus: false,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: `rowsOf` does not change
  const rows = useMemo(() => data?.pages.flatMap((page) => rowsOf(page)) ?? [], [data]);
  const shown = useMemo(() => (shows === showsAll ? rows : rows.filter(shows)), [rows, shows]);
  const loaded = data?.pages.length ?? 0;
  // A request of a next page waits while the loaded pages are loaded again, and is cancelled when that starts.
  const wanted = useRef({ path, pages: 0 });
  // A page without shown rows does not satisfy a request: the list would not request the next one.
  const lastPage = data?.pages.at(-1);
  const isLastHidden = lastPage !== undefined && !rowsOf(lastPage).some(shows);
  const isWanted = (): boolean => isLastHidden || (wanted.current.path === path && loaded < wanted.current.pages);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `isWanted` is a new function at each render
  useEffect(() => {
    if (isWanted() && !isFetching && hasNextPage && error === null) void fetchNextPage({ cancelRefetch: false });
  }, [path, loaded, isLastHidden, isFetching, hasNextPage, error, fetchNextPage]);
  return {
    firstPage: data?.pages[0] ?? null,
    rows,
    shown,
    isComplete: data !== undefined && !hasNextPage,
    problem: error,
    isFetching,
    loadMore() {
      wanted.current = { path, pages: loaded + 1 };
      if (!isFetching && hasNextPage) void fetchNextPage({ cancelRefetch: false });
    },
    reload: () => void refetch(),
  };
}

/** Updates cached pages in place, from a stream message. */
export function updatePages<Page>(queries: QueryClient, path: string, change: (page: Page) => Page): void {
  applyUpdate<InfiniteData<Page>>(queries, keyOf(path), (data) => ({ ...data, pages: data.pages.map(change) }));
}
