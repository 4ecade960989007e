/** One page of a list. Cursors are computed only when a query selects them. */
export interface RelayConnection {
  nodes: readonly object[];
  body: Readonly<Record<string, unknown>>;
  hasNextPage: boolean;
  hasPreviousPage: boolean;
  /** Cursor of the next page; null on the last one. */
  nextCursor: string | null;
  cursors(): readonly string[];
}
