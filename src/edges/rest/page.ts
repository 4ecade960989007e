import type { Content } from './exchange.ts';

/** Something served as it is, without a caller: metrics, the API reference and its files, public keys. */
export interface Page {
  path: `/${string}`;
  /** The roots it stands under; the bare one where not said. */
  under?: readonly string[];
  /** Null where there is no such file. */
  content(values: readonly string[]): Content | null | Promise<Content | null>;
}
