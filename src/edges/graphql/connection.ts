/** One page of a list. Cursors are made only where somebody asks for them. */
export interface Connection {
  nodes: readonly object[];
  body: Readonly<Record<string, unknown>>;
  hasNextPage: boolean;
  hasPreviousPage: boolean;
  /** Where the next page begins; null on the last one. */
  nextCursor: string | null;
  cursors(): readonly string[];
}
