import type { IncomingHttpHeaders } from 'node:http';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Content } from '../shared/exchange.ts';

/** A request for a page. */
export interface ResourceRequest {
  headers: IncomingHttpHeaders;
  path: string;
  /** Without its `?`. */
  query: string;
  requestId: Uuid;
}

/** Null where there is no such file. */
export type ResourceResponse = Content | { refusal: Refusal } | null;

/** Something served as it is, without a caller: metrics, the API reference and its files, public keys, signing in. */
export interface PublicResource {
  path: `/${string}`;
  /** Stands under `/v1` and `/api/v1` too. */
  atRootAndVersioned?: true;
  /** Stands there alone. */
  versionedOnly?: true;
  /** Stands outside the request rate (contract §2). */
  rateLimitExempt?: true;
  /** `values` are the texts of the path's `{…}` segments. */
  respond(values: readonly string[], asked: ResourceRequest): ResourceResponse | Promise<ResourceResponse>;
}
