export interface RejectedItem<T> {
  item: T;
  reason: unknown;
}

/** Runs `work` on all items at once, and returns those for which it rejected, in their order. */
export async function collectRejections<T>(
  items: readonly T[],
  work: (item: T) => Promise<unknown>,
): Promise<RejectedItem<T>[]> {
  const results = await Promise.allSettled(items.map((item) => work(item)));
  const failed: RejectedItem<T>[] = [];
  results.forEach((result, index) => {
    if (result.status === 'rejected') failed.push({ item: items[index] as T, reason: result.reason });
  });
  return failed;
}
