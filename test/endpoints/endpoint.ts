import type { Role } from '../../src/domain/roles.ts';
import type { World } from './endpoint-fixtures.ts';

/** A request without its root and its caller. */
export interface Ask {
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
  /** The token to send the request with, where the role alone does not determine it. */
  token?: string;
}

/** One row of an endpoint table of the specification or the contract. */
export interface Row {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  /** The minimum role; `none` needs no tenant, `open` no authentication, `platform` an operator. */
  role: Role | 'open' | 'platform';
  scope: string | null;
  /** A scope required in addition to `scope`. */
  alsoScope?: string;
  /** Scope of the operation that the request confirms. */
  confirmedScope?: string;
  /** The status of success. */
  status: number;
  /** Also served at the root, or only there. */
  root?: 'too' | 'only';
  /** Refused to API keys. */
  person?: true;
  /** Allowed under `maintenance_mode` although it changes something; every change without this mark is refused. */
  goesOn?: true;
  /** A POST that changes nothing. */
  reads?: true;
  /** Allowed in a suspended tenant. */
  suspended?: true;
  /** The subject in the path belongs to no tenant. */
  common?: true;
  /** Ids of another tenant in the body: 404, or an entry of a batch. */
  foreign?: 'body' | 'entry';
  /** Takes bytes instead of JSON. */
  bytes?: true;
  /** A request that succeeds, with new subjects for each attempt. `token` is the token of its sender. */
  request(world: World, token?: string): Ask | Promise<Ask>;
  /** Refusals specific to this endpoint: a request, and the code of its refusal. */
  refusals?: Record<string, (world: World) => Ask | Promise<Ask>>;
}
