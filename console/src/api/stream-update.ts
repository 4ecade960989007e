import type { Query, QueryClient, QueryKey } from '@tanstack/react-query';

type Change = (data: never) => unknown;

/** Updates of a query since its request was sent. */
const sinceRequest = new WeakMap<Query, Change[]>();

/**
 * Applies an update of a stream to the cached data of a query. The answer of a request that is under way may be older than the
 * update, so the update is applied to it as well: if the answer is newer, its own update follows on the stream.
 */
export function applyUpdate<T>(queries: QueryClient, queryKey: QueryKey, change: (data: T) => T): void {
  queries.setQueryData<T>(queryKey, (data) => data && change(data));
  const cache = queries.getQueryCache();
  const query = cache.find({ queryKey, exact: true });
  if (query?.state.fetchStatus !== 'fetching') return;
  const known = sinceRequest.get(query);
  if (known !== undefined) {
    known.push(change);
    return;
  }
  const changes: Change[] = [change];
  sinceRequest.set(query, changes);
  const unsubscribe = cache.subscribe((event) => {
    if (event.query !== query || (event.type !== 'updated' && event.type !== 'removed')) return;
    const action = event.type === 'updated' ? event.action : null;
    const isAnswered = action?.type === 'success' && action.manual !== true;
    // Another request is sent after these updates.
    const isOver = action === null || isAnswered || action.type === 'error' || action.type === 'fetch';
    if (!isOver) return;
    unsubscribe();
    sinceRequest.delete(query);
    if (isAnswered) {
      queries.setQueryData<unknown>(queryKey, (data: unknown) =>
        changes.reduce((before, apply) => apply(before as never), data),
      );
    }
  });
}
