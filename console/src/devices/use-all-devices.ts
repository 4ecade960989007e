import { useEffect } from 'react';
import type { listDevices } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { type PagedQuery, usePagedQuery } from '../api/paged-query.ts';

type Page = ResponseBody<typeof listDevices>;
export type ListedDevice = Page['devices'][number];

/** More are not loaded, so that a large tenant does not use up its rate limit. */
const MAX_LOADED = 2_000;

/** The tenant's devices for a form, up to 2,000, page by page. */
export function useAllDevices(): Pick<PagedQuery<Page, ListedDevice>, 'rows' | 'isComplete' | 'problem' | 'reload'> {
  const { rows, isComplete, isFetching, problem, loadMore, reload } = usePagedQuery<Page, ListedDevice>(
    '/v1/devices?limit=200',
    ({ devices }) => devices,
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: `loadMore` is a new function at each render
  useEffect(() => {
    if (!isComplete && !isFetching && problem === null && rows.length > 0 && rows.length < MAX_LOADED) loadMore();
  }, [isComplete, isFetching, problem, rows.length]);
  return { rows, isComplete, problem, reload };
}
