const CONCURRENCY = 20;

/**
 * Calls `act` for all items, a few at a time, and returns the results in order: with hundreds at once, the last ones
 * would wait longer on a slow machine than callers wait for a store.
 */
export async function mapConcurrently<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const queue = items.entries();
  const work = async () => {
    for (const [index, item] of queue) results[index] = await act(item);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  return results;
}
