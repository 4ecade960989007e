const CONCURRENCY = 20;

/**
 * Does it for all of them, a few at a time, and answers what came of each: where hundreds ask at once a slow machine lets the
 * last ones wait longer than callers wait for a store.
 */
export async function mapConcurrently<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const queue = items.entries();
  const work = async () => {
    for (const [place, item] of queue) results[place] = await act(item);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  return results;
}
