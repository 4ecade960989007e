import type { Content } from './exchange.ts';

/** Something served as it is, without a caller: metrics, the API reference and its files, public keys. */
export interface Page {
  path: `/${string}`;
  /** Stands under `/v1` and `/api/v1` too. */
  everywhere?: true;
  /** Stands outside the request rate (contract §2). */
  outsideRate?: true;
  /** Null where there is no such file. `values` are the texts of the path's `{…}` segments. */
  content(values: readonly string[]): Content | null | Promise<Content | null>;
}
