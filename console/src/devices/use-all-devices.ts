import { useEffect } from 'react';
import type { listDevices } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { type PagedQuery, usePagedQuery } from '../api/paged-query.ts';

type Page = ResponseBody<typeof listDevices>;
export type ListedDevice = Page['devices'][number];

/** More are not loaded, so that a large tenant does not use up its rate limit. */
const MAX_LOADED = 2_000;

interface AllDevices extends Pick<PagedQuery<Page, ListedDevice>, 'rows' | 'isComplete' | 'problem' | 'reload'> {
  /** More devices are being loaded. */
  isLoading: boolean;
}

/** The tenant's devices for a form, up to 2,000, page by page; none unless `enabled`. */
export function useAllDevices({ enabled = true }: { enabled?: boolean } = {}): AllDevices {
  const { rows, isComplete, isFetching, problem, loadMore, reload } = usePagedQuery<Page, ListedDevice>(
    enabled ? '/v1/devices?limit=200' : null,
    ({ devices }) => devices,
  );
  const isLoading = enabled && !isComplete && problem === null && rows.length < MAX_LOADED;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `loadMore` is a new function at each render
  useEffect(() => {
    if (isLoading && !isFetching && rows.length > 0) loadMore();
  }, [isLoading, isFetching, rows.length]);
  return { rows, isComplete, isLoading, problem, reload };
}
