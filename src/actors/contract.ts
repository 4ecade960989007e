import type { ConnectionEvent } from '../domain/connection-event.ts';
import type { Telemetry } from '../domain/telemetry.ts';
import type { Uuid } from '../domain/values.ts';
import type { ContextParts, MachineEvent, Snapshot } from '../machines/definition.ts';
import type { ActorRef, Output, ResolvableOutput, VolatileOutput } from '../machines/outputs.ts';
import { type IdempotencyRow, type StoredActor, StoreUnavailable } from '../store/contract.ts';

/** A committed state, as subscribers see it. */
export interface Committed<Context extends ContextParts = ContextParts> {
  ref: ActorRef;
  version: number;
  snapshot: Snapshot<Context>;
  since: number;
}

/** Result of an event. `understood` is false if no current state of the machine handles it; nothing was committed. */
export interface Reply<Context extends ContextParts = ContextParts> extends Committed<Context> {
  understood: boolean;
  outputs: readonly Output[];
  /** Resolves when all receivers of this transition's messages have committed; rejects if a delivery is retried. */
  messagesDelivered: Promise<void>;
}

/** Receives the result of an event. */
export interface ReplyHandler {
  resolve(reply: Reply): void;
  reject(reason: Error): void;
}

export interface SendOptions {
  /** Builds the stored answer of an idempotent request; it is committed together with the event. */
  idempotency?: (decided: { snapshot: Snapshot; outputs: readonly Output[] }) => IdempotencyRow | null;
}

/** Faults of `send`, thrown and never a reply: these, and those of the store. */
export class NoSuchActor extends Error {
  override name = 'NoSuchActor';
}
/** The actor's mailbox, or the total of pending events, is full. */
export class Overloaded extends Error {
  override name = 'Overloaded';
}
export class Quarantined extends Error {
  override name = 'Quarantined';
}
/** The machine threw on this event, or the store rejected its data; the actor's state is unchanged. */
export class EventFailed extends Error {
  override name = 'EventFailed';
}

/** An actor with this id exists already. */
export class ActorExists extends EventFailed {
  override name = 'ActorExists';
}

/** The lease has expired: another process may be active. Nothing is written, and nothing is answered from memory. */
export class LeaseExpired extends StoreUnavailable {
  override name = 'LeaseExpired';
  constructor() {
    super('the lease of the active process has expired');
  }
}

/** Another node owns the actor's shard. Nothing was done; its owner can do it. */
export class NotOwner extends StoreUnavailable {
  override name = 'NotOwner';
  constructor() {
    super('another node owns the shard of the actor');
  }
}

/** A resolved durable output: an event and its target, which is created if `create` is set. */
export interface AddressedEvent {
  to: ActorRef;
  event: MachineEvent;
  create?: true;
  /** Sent instead if the machine throws on the event. */
  fallback?: AddressedEvent;
}

/**
 * Resolves an output to an event and its target; null if the output is obsolete. It is retried if it throws. It must
 * have no side effects: only its result is committed, together with the deletion of the outbox row.
 */
export type OutputResolver<T extends ResolvableOutput['type'] = ResolvableOutput['type']> = (
  output: Extract<ResolvableOutput, { type: T }>,
) => Promise<AddressedEvent | null>;

/**
 * Live actors as the batch being collected has them: a decision based on an actor of the batch commits together with
 * it. Actors in another batch are hidden, because their outcome is not known yet.
 */
export type BatchView = Pick<Actors, 'peek'>;

/**
 * Resolves an output from memory, so that its target can be enlisted in the sender's batch. If it returns null or
 * throws, the output is left to the asynchronous resolver.
 */
export type SyncOutputResolver<T extends ResolvableOutput['type'] = ResolvableOutput['type']> = (
  output: Extract<ResolvableOutput, { type: T }>,
  batch: BatchView,
) => AddressedEvent | null;

export type VolatileOutputHandler<T extends VolatileOutput['type'] = VolatileOutput['type']> = (
  output: Extract<VolatileOutput, { type: T }>,
) => void;

/** Current runtime state of an actor. */
export interface Inspection {
  /** Whether the actor is in memory. */
  live: boolean;
  /** Number of events in its mailbox. */
  mailbox: number;
  /** Reason of the quarantine, if the actor is live and quarantined; else null. */
  quarantine: string | null;
}

/** The actor runtime's interface for operations and edges. Actors are addressed by kind and id; `send` may fail. */
export interface Actors {
  /** Resolves when the transition is durable; rejects with `NoSuchActor` if the actor does not exist. */
  send(ref: ActorRef, event: MachineEvent, options?: SendOptions): Promise<Reply>;
  /** As `send`, with callbacks in reply order instead of a promise; for thousands of events per second. */
  post(ref: ActorRef, event: MachineEvent, replyTo: ReplyHandler): void;
  /** Creates an actor; throws `ActorExists` if the id exists. */
  create(ref: ActorRef, event: MachineEvent, options?: SendOptions): Promise<Reply>;
  /** The last committed state, loaded if the actor is not live; null if it does not exist. */
  read<Context extends ContextParts>(ref: ActorRef): Promise<Committed<Context> | null>;
  /** Reads many actors, with one query for those not live; missing ones are left out. */
  readAll<Context extends ContextParts>(
    kind: ActorRef['kind'],
    ids: readonly Uuid[],
  ): Promise<Map<Uuid, Committed<Context>>>;
  /** The last committed state of a live actor; never loads. */
  peek<Context extends ContextParts>(ref: ActorRef): Committed<Context> | undefined;
  /** Runtime state of an actor; never loads. */
  inspect(ref: ActorRef): Inspection;
  /** Releases a quarantined actor. False if it does not exist. */
  releaseQuarantine(ref: ActorRef): Promise<boolean>;
  /** Whether this process runs the actors of the tenant, and will for the next moment. */
  owns(tenantId: Uuid): boolean;
  /**
   * Begins an operation in the tenant, which ends with a call of the result; null if `owns` is false. The tenant's shard
   * is handed over only after its operations, whatever they change. Those with `interrupt` may last: it is called if
   * the shard cannot wait.
   */
  enter(tenantId: Uuid, interrupt?: () => void): (() => void) | null;
  /** Subscribes to a type of volatile output; `handler` is called after the commit and must not throw. */
  subscribe<T extends VolatileOutput['type']>(type: T, handler: VolatileOutputHandler<T>): () => void;
  /** Subscribes to every committed transition, for inspection; `from` is null for a new actor. */
  subscribeTransitions(
    handler: (committed: Committed, event: MachineEvent, from: StoredActor['value'] | null) => void,
  ): () => void;
}

/** A device's connection, reported by the MQTT edge and read by operations. */
export interface LiveSession {
  deviceId: Uuid;
  tenantId: Uuid;
  /** The client identifier of the session. */
  sessionId: string;
  keyVersion: number;
  /** True once its `cmd` subscription is granted. */
  subscribed: boolean;
}

/** Reports the sessions and the activity of devices to the runtime, and reads them. */
export interface DeviceSessions {
  /** Returns the session that the new one replaces. */
  open(session: LiveSession): LiveSession | undefined;
  /** Marks the session as subscribed and writes its pending commands; resolves when they are committed as written. */
  markSubscribed(deviceId: Uuid, sessionId: string): Promise<void>;
  /** Ignored when `sessionId` is not the current one. */
  close(deviceId: Uuid, sessionId: string): void;
  get(deviceId: Uuid): LiveSession | undefined;
  count(): number;
  /** Records a verified message: `last_seen`, battery, telemetry and the silence timeout. It causes no commit. */
  recordActivity(deviceId: Uuid, activity: { at: number; battery?: number; telemetry?: Telemetry }): void;
  /** Adds to the device's connection history, whose other entries are presence changes. */
  recordConnection(deviceId: Uuid, event: ConnectionEvent): void;
  /** Entries of the connection history that are not flushed to the store yet, newest first. */
  connections(deviceId: Uuid): readonly ConnectionEvent[];
  /** Counts a rejected message. */
  recordRefusal(deviceId: Uuid): void;
  lastSeen(deviceId: Uuid): number | undefined;
  /** Percent, as last reported and not flushed to the store yet, or reported in this session; else undefined. */
  battery(deviceId: Uuid): number | undefined;
  /** Telemetry that was reported in this session, or since the last flush to the store. */
  telemetry(deviceId: Uuid): Telemetry;
  /** Last use of each key by version, as far as it is not flushed to the store yet. */
  keysUsed(deviceId: Uuid): ReadonlyMap<number, number>;
}

/** Counters of the runtime; implemented by the metrics edge. */
export interface RuntimeMeter {
  batchCommitted(actors: number, events: number, milliseconds: number): void;
  storeUnavailable(): void;
  /** The stored version differs from the version that was decided on, because another process wrote the row. */
  versionConflict(): void;
  dataRefused(): void;
  quarantined(): void;
  passivated(count: number): void;
}

export const unmetered: RuntimeMeter = {
  batchCommitted() {},
  storeUnavailable() {},
  versionConflict() {},
  dataRefused() {},
  quarantined() {},
  passivated() {},
};
