import { type InfiniteData, useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useMemo } from 'react';
import type { JsonObject } from '../../../src/domain/values.ts';
import { requestJson } from '../api/client.ts';
import type { Problem } from '../api/problem.ts';
import { applyUpdate } from '../api/stream-update.ts';

/** The members of a device that `GET /v1/devices` does not return. */
export interface DeviceValues {
  id: string;
  state: JsonObject;
  /** Percent. */
  battery: number | null;
  room: { name: string } | null;
}

/** The first part of the key of these queries. */
export const VALUES_KEY = 'device values';

interface Page {
  nodes: readonly DeviceValues[];
  next: string | null;
}

/** The same rows on each page as the list, so that a list of n rows needs as many requests as its pages. */
const PAGE = 200;
const REFRESH_MS = 30_000;

const QUERY = `query ($homeId: ID, $roomId: ID, $online: Boolean, $tag: [String!], $first: Int, $after: String) {
  devices(homeId: $homeId, roomId: $roomId, online: $online, tag: $tag, first: $first, after: $after) {
    nodes { id state battery room { name } }
    pageInfo { endCursor hasNextPage }
  }
}`;

interface Answer {
  data?: {
    devices: { nodes: DeviceValues[]; pageInfo: { endCursor: string | null; hasNextPage: boolean } } | null;
  };
}

async function requestPage(filter: URLSearchParams, after: string | null): Promise<Page> {
  const online = filter.get('online');
  const variables = {
    ...{ homeId: filter.get('home_id'), roomId: filter.get('room_id') },
    ...{ online: online === null ? null : online === 'true', first: PAGE, after },
    ...(filter.has('tag') && { tag: filter.getAll('tag') }),
  };
  const { data } = await requestJson<Answer>('POST', '/graphql', { body: { query: QUERY, variables } });
  const { nodes = [], pageInfo } = data?.devices ?? {};
  return { nodes, next: pageInfo?.hasNextPage === true ? pageInfo.endCursor : null };
}

export interface LoadedValues {
  byId: ReadonlyMap<string, DeviceValues>;
  /** Values of loaded devices are being loaded. */
  isLoading: boolean;
  /** Replaces the states of loaded devices. */
  setStates(states: ReadonlyMap<string, JsonObject>): void;
}

/** Values of the first `count` devices of the list with these filters: `home_id`, `room_id`, `online` and `tag`. */
export function useDeviceValues(filterText: string, count: number): LoadedValues {
  const queries = useQueryClient();
  const key = useMemo(() => [VALUES_KEY, filterText] as const, [filterText]);
  const { data, hasNextPage, isError, isFetching, fetchNextPage } = useInfiniteQuery<
    Page,
    Problem,
    InfiniteData<Page>,
    typeof key,
    string | null
  >({
    queryKey: key,
    queryFn: ({ pageParam }) => requestPage(new URLSearchParams(filterText), pageParam),
    initialPageParam: null,
    getNextPageParam: ({ next }) => next,
    enabled: count > 0,
    staleTime: REFRESH_MS,
    refetchOnWindowFocus: false,
  });
  const byId = useMemo(
    () => new Map(data?.pages.flatMap(({ nodes }) => nodes.map((node) => [node.id, node] as const))),
    [data],
  );
  const isMissing = hasNextPage && !isError && (data?.pages.length ?? 0) * PAGE < count;
  const mustLoad = isMissing && !isFetching;
  useEffect(() => {
    if (mustLoad) void fetchNextPage();
  }, [mustLoad, fetchNextPage]);
  const setStates = useCallback(
    (states: ReadonlyMap<string, JsonObject>): void => {
      applyUpdate<InfiniteData<Page>>(queries, key, (before) => withStates(before, states));
    },
    [queries, key],
  );
  return { byId, isLoading: isFetching || isMissing, setStates };
}

function withStates(data: InfiniteData<Page>, states: ReadonlyMap<string, JsonObject>): InfiniteData<Page> {
  const pages = data.pages.map((page) =>
    page.nodes.some(({ id }) => states.has(id))
      ? { ...page, nodes: page.nodes.map((node) => ({ ...node, state: states.get(node.id) ?? node.state })) }
      : page,
  );
  return { ...data, pages };
}
