import type { AnyStateMachine } from 'xstate';
import type { EpochMs, Json, JsonObject, Principal, Uuid } from '../domain/values.ts';
import type { ActorKind, ActorRef } from './outputs.ts';

/** Every event says when it happened and who caused it: a machine has no clock of its own. */
export interface MachineEvent {
  type: string;
  at: EpochMs;
  by?: Principal;
}

/** The part of a snapshot that machines and the runtime share. */
export interface Snapshot<Context = object> {
  value: Json;
  context: Context;
  status: 'active' | 'done' | 'error' | 'stopped';
}

/** What the journal keeps of one transition; never a secret. */
export interface JournalNote {
  data: JsonObject | null;
}

/**
 * What the runtime must know of a kind of actor beside its chart. One per version of a machine; old versions stay in
 * `versions.ts` until their last instance is gone.
 */
export interface MachineDefinition<Context = object> {
  kind: ActorKind;
  version: number;
  machine: AnyStateMachine;
  tenantOf(context: Context): Uuid;
  /** The context as stored: JSON, no secrets. */
  toStored(context: Context): JsonObject;
  /** Members of the context, by their names in memory and as stored, that most transitions change: the rest is seldom written. */
  liveFields: ReadonlySet<string>;
  /** Checks what the store gave back against a schema; throws when it does not fit. */
  fromStored(stored: JsonObject): Context;
  /** Columns of the actor's row that queries need, written in the same commit (see `store/contract.ts`). */
  columns(snapshot: Snapshot<Context>): JsonObject;
  /** The journal's note of this transition, or null where none is kept (telemetry). */
  journal(event: MachineEvent, before: Snapshot<Context> | null, after: Snapshot<Context>): JournalNote | null;
  /** True for an event whose only lasting effect is on the replay window: adopted in memory, kept with the next commit. */
  isTransient(event: MachineEvent): boolean;
  /** True where no event is expected soon, or none at all: the actor leaves memory with its commit, and an event brings it back. */
  canPassivate(snapshot: Snapshot<Context>): boolean;
  /** Those whose words it waits for, where it waits for several at a time. */
  expectsMessagesFrom?(snapshot: Snapshot<Context>): readonly ActorRef[];
  /** The context as an administrator may see it, in the words of the wire: it names what is shown, and so leaves out the rest. */
  toAdminView(context: Context): JsonObject;
}
