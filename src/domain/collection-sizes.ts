/** Entries of in-memory collections with the process's lifetime, by name. Each is bounded, or its entries expire. */
export type CollectionSizes = Readonly<Record<string, number>>;

/**
 * A component that reports the sizes of its long-lived collections. They are counted only at each scrape of the
 * metrics.
 */
export interface SizeReporter {
  sizes(): CollectionSizes;
}

/** Sums the sizes of several components by name. */
export function sumSizes(parts: Iterable<SizeReporter>): CollectionSizes {
  const all: Record<string, number> = {};
  for (const part of parts) {
    for (const [name, entries] of Object.entries(part.sizes())) all[name] = (all[name] ?? 0) + entries;
  }
  return all;
}
