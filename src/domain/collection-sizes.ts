/** Entries of in-memory collections that live as long as the process, by name. Each has a bound, or its entries have an end. */
export type CollectionSizes = Readonly<Record<string, number>>;

/** A part that reports how many entries its long-lived collections have. Counted only when asked, at each scrape of the metrics. */
export interface SizeReporter {
  sizes(): CollectionSizes;
}

/** The sizes of several parts in one object. Where parts report the same name, their entries are added. */
export function sumSizes(parts: Iterable<SizeReporter>): CollectionSizes {
  const all: Record<string, number> = {};
  for (const part of parts) {
    for (const [name, entries] of Object.entries(part.sizes())) all[name] = (all[name] ?? 0) + entries;
  }
  return all;
}
