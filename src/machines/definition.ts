import type { AnyStateMachine } from 'xstate';
import type { z } from 'zod';
import type { EpochMs, Json, JsonObject, Principal, Uuid } from '../domain/values.ts';
import type { ActorKind, ActorRef } from './outputs.ts';

/** An event with its time and its cause. Machines do not read a clock. */
export interface MachineEvent {
  type: string;
  at: EpochMs;
  by?: Principal;
}

/**
 * The cause of a transition, as the journal names it: one of the machine's events, or the delay whose timer fired. XState
 * puts the delay's name into the type of the timer's event.
 */
export const causeOf = <Event extends MachineEvent, Delay extends string>(event: MachineEvent) =>
  (event.type.startsWith('xstate.after.') ? { type: event.type.split('.')[2] } : event) as Event | { type: Delay };

/**
 * The context of a machine in two parts. Most transitions change `live` alone: `fixed` then stays the same object, so an
 * unchanged part is recognised by identity.
 */
export interface ContextParts {
  fixed: object;
  live: object;
}

/** The part of a snapshot that machines and the runtime share. */
export interface Snapshot<Context extends ContextParts = ContextParts> {
  value: Json;
  context: Context;
  status: 'active' | 'done' | 'error' | 'stopped';
}

/** A context as JSON. Its parts have different members. */
export interface StoredContext {
  fixed: JsonObject;
  live: JsonObject;
}

/** The journal entry of a transition; never contains a secret. */
export interface JournalNote {
  data: JsonObject | null;
}

/**
 * Describes a kind of actor to the runtime, in addition to its state chart. There is one definition per version of a
 * machine; old versions stay in `versions.ts` until their last instance is gone.
 */
export interface MachineDefinition<
  Context extends ContextParts = ContextParts,
  Columns extends JsonObject = JsonObject,
> {
  kind: ActorKind;
  version: number;
  machine: AnyStateMachine;
  tenantOf(context: Context): Uuid;
  /** The context as stored: JSON, no secrets. */
  toStored(context: Context): StoredContext;
  /** Reads a stored context, both parts in one object; throws if it does not match the schema. */
  fromStored(stored: JsonObject): Context;
  /** The schema of a stored context. */
  storedSchema: z.ZodObject;
  /** Columns of the actor's row that queries need, written in the same commit (see `actor-columns.ts`). */
  columns(snapshot: Snapshot<Context>): Columns;
  /** The journal entry of this transition, or null if it is not journaled (telemetry). */
  journal(event: MachineEvent, before: Snapshot<Context> | null, after: Snapshot<Context>): JournalNote | null;
  /** True for an event that changes only the replay window: applied in memory, stored with the actor's next commit. */
  isTransient(event: MachineEvent): boolean;
  /** True if no event is expected soon: the actor is evicted from memory after its commit, and an event reloads it. */
  canPassivate(snapshot: Snapshot<Context>): boolean;
  /** Actors whose messages this actor awaits, for kinds that await several at a time. */
  expectsMessagesFrom?(snapshot: Snapshot<Context>): readonly ActorRef[];
  /**
   * The context for administrators, with the wire's field names. An allowlist: members that are not named are not
   * shown.
   */
  toAdminView(context: Context): JsonObject;
}

/** A view passes the members that are left when it has taken those that it shows: a member without a decision does not compile. */
export function assertEmpty(..._rest: readonly Record<string, never>[]): void {}
