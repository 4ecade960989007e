import type { Uuid } from '../domain/values.ts';
import type { MachineEvent, Snapshot } from '../machines/definition.ts';
import type { ActorRef, Output, ResolvableOutput, VolatileOutput } from '../machines/outputs.ts';
import type { IdempotencyRow, StoredActor } from '../store/contract.ts';

/** A committed state, as watchers see it. */
export interface Committed<Context = object> {
  ref: ActorRef;
  version: number;
  snapshot: Snapshot<Context>;
  since: number;
}

/** What became of an event. `understood` is false where no state of the machine takes it: nothing was committed. */
export interface Reply<Context = object> extends Committed<Context> {
  understood: boolean;
  outputs: readonly Output[];
  /** Resolves when every actor that this transition told has committed what it was told; rejects where that must wait. */
  messagesDelivered: Promise<void>;
}

/** Who waits for what becomes of an event. */
export interface ReplyHandler {
  resolve(reply: Reply): void;
  reject(reason: Error): void;
}

export interface SendOptions {
  /** Made between decide and commit, kept or lost with the commit: the stored answer of an idempotent request. */
  idempotency?: (decided: { snapshot: Snapshot; outputs: readonly Output[] }) => IdempotencyRow | null;
}

/** No such actor, or its mailbox is full, or it is quarantined, or the store is away: thrown, never answered. */
export class NoSuchActor extends Error {
  override name = 'NoSuchActor';
}
export class Overloaded extends Error {
  override name = 'Overloaded';
}
export class Quarantined extends Error {
  override name = 'Quarantined';
}
/** The machine threw on this event; the actor's state is what it was. */
export class EventFailed extends Error {
  override name = 'EventFailed';
}

/** The actor's id is taken. */
export class ActorExists extends EventFailed {
  override name = 'ActorExists';
}

/** What a durable output comes to: an event for an actor, which it makes where `create` says so. */
export interface AddressedEvent {
  to: ActorRef;
  event: MachineEvent;
  create?: true;
  /** Sent instead where the machine fails on it. */
  fallback?: AddressedEvent;
}

/**
 * Finds out what an output comes to, or null where it is too late for it. What it throws is tried again; nothing may have
 * happened but what it answers, for that is kept together with the output's end.
 */
export type OutputResolver<T extends ResolvableOutput['type'] = ResolvableOutput['type']> = (
  output: Extract<ResolvableOutput, { type: T }>,
) => Promise<AddressedEvent | null>;

/**
 * Live actors as the turn in the making has them by now: what is judged by one that is in it is kept together with that, or not at
 * all. Who is in another turn is not shown: nobody knows yet what that makes of them.
 */
export type BatchView = Pick<Actors, 'peek'>;

/**
 * The same from what is in memory, so that the turn which says the output can take it in. Null, or what it throws, leaves
 * the output to the resolver.
 */
export type SyncOutputResolver<T extends ResolvableOutput['type'] = ResolvableOutput['type']> = (
  output: Extract<ResolvableOutput, { type: T }>,
  batch: BatchView,
) => AddressedEvent | null;

export type VolatileOutputHandler<T extends VolatileOutput['type'] = VolatileOutput['type']> = (
  output: Extract<VolatileOutput, { type: T }>,
) => void;

/** How the runtime holds an actor at this moment. */
export interface Inspection {
  /** In memory. */
  live: boolean;
  /** Events that wait for it. */
  mailbox: number;
  /** Why the live actor is quarantined, or null. */
  quarantine: string | null;
}

/** The runtime as the rest of the house sees it. Actors are addressed by kind and id, and `send` may fail. */
export interface Actors {
  /** Resolves when the transition is durable. Creates the actor when `event` is a creating one and none exists. */
  send(ref: ActorRef, event: MachineEvent, options?: SendOptions): Promise<Reply>;
  /** As `send`, for whoever sends thousands a second: `waiter` is told where a promise would have been settled. */
  post(ref: ActorRef, event: MachineEvent, replyTo: ReplyHandler): void;
  /** A new actor; throws `EventFailed` where the id exists. */
  create(ref: ActorRef, event: MachineEvent, options?: SendOptions): Promise<Reply>;
  /** The last committed state, loaded when it is not live; null where there is none. */
  read<Context = object>(ref: ActorRef): Promise<Committed<Context> | null>;
  /** Many at once, in one query for those not live; missing ones are left out. */
  readAll<Context = object>(kind: ActorRef['kind'], ids: readonly Uuid[]): Promise<Map<Uuid, Committed<Context>>>;
  /** Only what is live; never loads. */
  peek<Context = object>(ref: ActorRef): Committed<Context> | undefined;
  /** Never loads. */
  inspect(ref: ActorRef): Inspection;
  /** Lets a quarantined actor go on. False where there is no such actor. */
  releaseQuarantine(ref: ActorRef): Promise<boolean>;
  /** Registers a sink for a kind of volatile output; it is called after the commit and must not throw. */
  subscribe<T extends VolatileOutput['type']>(type: T, handler: VolatileOutputHandler<T>): () => void;
  /** Called once with each committed transition, for inspection. */
  subscribeTransitions(
    handler: (committed: Committed, event: MachineEvent, from: StoredActor['value'] | null) => void,
  ): () => void;
}

/** A device's connection, as the MQTT edge reports it and the operations ask for it. */
export interface LiveSession {
  deviceId: Uuid;
  tenantId: Uuid;
  /** The client identifier of the session. */
  sessionId: string;
  keyVersion: number;
  /** Its own `cmd` subscription was granted. */
  subscribed: boolean;
}

export interface DeviceSessions {
  /** Answers the session that the new one replaces. */
  open(session: LiveSession): LiveSession | undefined;
  /** Marks the subscription and writes what is pending; resolves when those commands are committed as written. */
  markSubscribed(deviceId: Uuid, sessionId: string): Promise<void>;
  /** Ignored when `sessionId` is not the current one. */
  close(deviceId: Uuid, sessionId: string): void;
  get(deviceId: Uuid): LiveSession | undefined;
  count(): number;
  /** A verified message came: keeps `last_seen`, battery and the silence clock; never a commit by itself. */
  recordActivity(deviceId: Uuid, activity: { at: number; battery?: number }): void;
  recordRefusal(deviceId: Uuid): void;
  lastSeen(deviceId: Uuid): number | undefined;
  /** Percent, as this session last told; undefined where the store knows all there is. */
  battery(deviceId: Uuid): number | undefined;
  /** When keys were last used, by their version, as far as the store was not told yet. */
  keysUsed(deviceId: Uuid): ReadonlyMap<number, number>;
}
