import type { IncomingHttpHeaders } from 'node:http';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Content } from '../shared/exchange.ts';

/** A request for a page. */
export interface Asked {
  headers: IncomingHttpHeaders;
  path: string;
  /** Without its `?`. */
  query: string;
  requestId: Uuid;
}

/** Null where there is no such file. */
export type PageAnswer = Content | { refusal: Refusal } | null;

/** Something served as it is, without a caller: metrics, the API reference and its files, public keys, signing in. */
export interface Page {
  path: `/${string}`;
  /** Stands under `/v1` and `/api/v1` too. */
  everywhere?: true;
  /** Stands there alone. */
  versioned?: true;
  /** Stands outside the request rate (contract §2). */
  outsideRate?: true;
  /** `values` are the texts of the path's `{…}` segments. */
  content(values: readonly string[], asked: Asked): PageAnswer | Promise<PageAnswer>;
}
