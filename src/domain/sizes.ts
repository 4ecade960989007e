/** Entries of in-memory collections that live as long as the process, by name. Each has a bound, or its entries have an end. */
export type Sizes = Readonly<Record<string, number>>;
