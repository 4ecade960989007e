/** JSON as it travels on every wire. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json;
}

/** Milliseconds since the epoch, UTC. */
export type EpochMs = number;
export type Milliseconds = number;
export type Uuid = string;

/** Who asked: a user, or the service itself for what a clock or a device caused. */
export interface Principal {
  kind: 'user' | 'device' | 'system';
  /** User id, device id, or the name of the part of the service. */
  id: string;
  /** The API key's prefix when the user acted through a key. */
  key?: string;
  /** The edge: `rest`, `graphql`, `mcp`, `mqtt`, `cli`, … */
  via?: string;
  /** True for a cookie session or a user's token outside `/mcp` (contract §5, "a person"). */
  person?: boolean;
  /** The request that it was asked in, and the operation that was asked for: what the journal is read by as an audit. */
  requestId?: Uuid;
  operation?: string;
}

export const SYSTEM: Principal = { kind: 'system', id: 'twinkeep' };
