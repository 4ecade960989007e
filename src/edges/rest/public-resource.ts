import type { IncomingHttpHeaders } from 'node:http';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Content } from '../shared/http-exchange.ts';

/** A request for a public resource. */
export interface ResourceRequest {
  headers: IncomingHttpHeaders;
  path: string;
  /** Without the `?`. */
  query: string;
  requestId: Uuid;
  /** The client's. */
  address: string;
}

/** Null if the resource does not exist. */
export type ResourceResponse = Content | { refusal: Refusal } | null;

/** A resource without an operation or a caller: metrics, the API reference and its files, public keys, sign-in pages. */
export interface PublicResource {
  path: `/${string}`;
  /** Also available below `/v1` and `/api/v1`. */
  atRootAndVersioned?: true;
  /** Available only below `/v1` and `/api/v1`. */
  versionedOnly?: true;
  /** Not counted by the rate limit (contract §2). */
  rateLimitExempt?: true;
  /** `values` are the texts of the path's `{…}` segments. */
  respond(values: readonly string[], request: ResourceRequest): ResourceResponse | Promise<ResourceResponse>;
}
