/**
 * Options of an `LRUCache` with at most `max` entries. Its option `max` allocates the memory for all entries at once: 8 MB
 * and 30 ms for those of a service that has just started.
 */
export const entriesAtMost = (max: number): { maxSize: number; sizeCalculation: () => number } => ({
  maxSize: max,
  sizeCalculation: () => 1,
});
