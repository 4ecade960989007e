import type { ZodType, z } from 'zod';
import type { Actors, Sessions } from '../actors/contract.ts';
import type { Clock } from '../domain/clock.ts';
import type { Outcome } from '../domain/refusals.ts';
import type { Role } from '../domain/roles.ts';
import type { Principal, Uuid } from '../domain/values.ts';
import type { Cache, IdempotencyRow, Store, User } from '../store/contract.ts';

/** Who calls, as the identity check of an edge found out; what they may do is decided in the operations. */
export interface Caller {
  /** Null only where an operation needs no authentication. */
  user: User | null;
  principal: Principal;
  tenantId: Uuid | null;
  role: Role;
  /** Null: all that the role allows. */
  scopes: readonly string[] | null;
  platformAdmin: boolean;
  /** The presented token, for logout and for connections that must end with it. */
  token: { jti: string | null; expiresAt: number } | null;
  requestId: Uuid;
}

/** What an operation answers beside its body. */
export interface Answer<Output> {
  body: Output;
  /** Where it is not the operation's usual one: 200 or 409 of a dry run. */
  status?: number;
}

/** The stored answer of an idempotent request, still to be made: `row` seals the body into what the store keeps. */
export interface Idempotent {
  row(answer: Answer<unknown>): IdempotencyRow;
  /** For several targets: kept before the effects, with the ids they will have. */
  begin(plan: unknown): Promise<void>;
  /** What an earlier try planned before it was cut off, or null. */
  resumed: unknown;
  /** True once the answer's row was handed to the store with the effect; else the edge keeps it afterwards. */
  kept: boolean;
}

export interface Call<Input> {
  input: Input;
  caller: Caller;
  /** Null where the caller sent no `Idempotency-Key`. */
  idempotent: Idempotent | null;
}

/** What operations work with; `main` makes it once. */
export interface Services {
  store: Store;
  cache: Cache;
  actors: Actors;
  sessions: Sessions;
  clock: Clock;
  /** UUID version 7. */
  newId(): Uuid;
  seal(plain: string, boundTo: string): string;
  open(sealed: string, boundTo: string): string;
  flags(): Readonly<Record<Flag, boolean>>;
  settings: Settings;
}

export const flagNames = ['maintenance_mode', 'registration_lock', 'commands_disabled', 'cognition_disabled'] as const;
export type Flag = (typeof flagNames)[number];

/** The part of the configuration that operations need. */
export interface Settings {
  apiBaseUrl: string;
  mqttUrl: string;
  betaDeviceLimit: number;
  defaultTier: string;
  /** Ed25519 keys that sign what Ed25519 devices receive: 32 raw bytes, base64url, newest first. */
  cloudPublicKeys: readonly string[];
}

/**
 * One thing a caller may ask, whatever wire it came on. The schemas validate, document and type it; role and scope are
 * checked by `perform`, so that no edge can miss them.
 */
export interface Operation<In extends ZodType = ZodType, Out extends ZodType = ZodType> {
  /** camelCase, unique: OpenAPI's `operationId`. */
  name: string;
  summary: string;
  /** One input object: path and query parameters and body members by their wire names. */
  input: In;
  output: Out;
  /** `none` needs no tenant; null needs no authentication. */
  role: Role | null;
  /** `<verb>:<resource>`, or null. */
  scope: string | null;
  /** Changes something: refused under `maintenance_mode` unless `inMaintenance`. */
  changes: boolean;
  inMaintenance?: boolean;
  /** Answers even when the tenant is suspended. */
  inSuspension?: boolean;
  platform?: boolean;
  run(services: Services, call: Call<z.infer<In>>): Promise<Outcome<Answer<z.infer<Out>>>>;
}

/** Keeps the inferred types of an operation's schemas. */
export const operation = <In extends ZodType, Out extends ZodType>(
  definition: Operation<In, Out>,
): Operation<In, Out> => definition;
