/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json;
}

/** Milliseconds since the epoch, UTC. */
export type EpochMs = number;
export type Milliseconds = number;
export type Uuid = string;

/** The origin of a request: a user, a device, or the service itself for events caused by a timer. */
export interface Principal {
  kind: 'user' | 'device' | 'system';
  /** User id, device id, or the name of the service component. */
  id: string;
  /** The API key's prefix, if the user acted through a key. */
  key?: string;
  /** The edge: `rest`, `graphql`, `mcp`, `mqtt`, `cli`, … */
  via?: string;
  /** True for a cookie session or a user's token outside `/mcp` (contract §5, "a person"). */
  person?: boolean;
  /** Id of the request and name of the operation: the journal is filtered by them as an audit log. */
  requestId?: Uuid;
  operation?: string;
}

export const SYSTEM: Principal = { kind: 'system', id: 'twinkeep' };
