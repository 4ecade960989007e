import type { Role } from '../../src/domain/roles.ts';
import type { World } from './endpoint-fixtures.ts';

/** A request without its root and without a caller. */
export interface Ask {
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
  /** Whose request it has to be, where the role alone does not tell. */
  token?: string;
}

/** A line of an endpoint table, as the specification or the contract has it. */
export interface Row {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  /** The least role; `none` needs no tenant, `open` no authentication, `platform` an operator. */
  role: Role | 'open' | 'platform';
  scope: string | null;
  /** Needed beside `scope`, for what it comes to. */
  alsoScope?: string;
  /** The status of success. */
  status: number;
  /** Stands at the root too, or there alone. */
  root?: 'too' | 'only';
  /** Never for an API key. */
  person?: true;
  /** Goes on under `maintenance_mode` though it changes something; every change that is not marked is refused. */
  goesOn?: true;
  /** Changes nothing though it is a POST. */
  reads?: true;
  /** Answers in a suspended tenant. */
  suspended?: true;
  /** What its path names belongs to no tenant. */
  common?: true;
  /** What ids in the body name, of another tenant: 404, or an entry of a batch. */
  foreign?: 'body' | 'entry';
  /** Takes bytes, not JSON. */
  bytes?: true;
  /** A request that succeeds, on things of its own: it is made anew for every try. `token` is who will send it. */
  ask(world: World, token?: string): Ask | Promise<Ask>;
  /** What this endpoint may answer beside what all do: a request, and the code of its refusal. */
  refusals?: Record<string, (world: World) => Ask | Promise<Ask>>;
}
