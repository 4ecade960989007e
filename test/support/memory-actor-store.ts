import { setup } from 'xstate';
import { z } from 'zod';
import type { OwnedShards } from '../../src/domain/shards.ts';
import type { Uuid } from '../../src/domain/values.ts';
import { actionsFor, changeFixed, emit } from '../../src/machines/decision.ts';
import type { MachineDefinition, MachineEvent } from '../../src/machines/definition.ts';
import type { ActorRef, Output } from '../../src/machines/outputs.ts';
import type {
  ActorCommit,
  ActorStore,
  CommandStore,
  CommitOptions,
  DeviceStore,
  JournalEntry,
  OutboxRow,
  PendingOutput,
  PlanStore,
  PresenceFlush,
  Store,
  StoredActor,
  TimerRow,
  UnhandledTimer,
} from '../../src/store/contract.ts';
import { type CommittedBatch, toCommittedBatch } from './committed-batch.ts';
import { actorStore } from './memory-store/actors.ts';
import { type ActorRow, actorKey, type JournalRow, MemoryDatabase } from './memory-store/database.ts';
import { Session } from './memory-store/session.ts';
import type { Table } from './memory-store/table.ts';

/** An actor store in memory whose commits a test can hold, fail or lose. */
export class MemoryActorStore implements ActorStore {
  readonly rows: Table<ActorRow>;
  readonly journals: Table<readonly JournalRow[]>;
  /** Rows that a test adds have no sequence number until they are first read. */
  readonly outbox: Table<OutboxRow>;
  readonly timers: Table<TimerRow>;
  readonly quarantines: [string, string | null][] = [];
  commits: CommittedBatch[] = [];
  readonly loads: string[][] = [];
  /** Called before each commit; an error that it throws becomes the commit's. */
  beforeCommit: (batch: CommittedBatch) => void | Promise<void> = () => {};
  /** Called after each commit; an error that it throws becomes the commit's. */
  afterCommit: (batch: CommittedBatch) => void | Promise<void> = () => {};
  beforeLoad: () => void | Promise<void> = () => {};
  readonly #database: MemoryDatabase;
  readonly #store: ActorStore;

  /** With its own database it accepts any id and any columns. */
  constructor(database = new MemoryDatabase({ checked: false })) {
    this.#database = database;
    this.#store = actorStore(new Session(database));
    this.rows = database.tables.actors;
    this.journals = database.tables.journal;
    this.outbox = database.tables.outbox as Table<never>;
    this.timers = database.tables.timers;
  }

  async load(kind: ActorRef['kind'], ids: readonly Uuid[]): Promise<StoredActor[]> {
    await this.beforeLoad();
    this.loads.push([...ids]);
    return this.#store.load(kind, ids);
  }

  async commit(commits: readonly ActorCommit[], options?: CommitOptions): Promise<{ lost: ActorRef[] }> {
    const batch = toCommittedBatch(commits, options);
    await this.beforeCommit(batch);
    this.commits.push(batch);
    const answer = await this.#store.commit(commits, options);
    await this.afterCommit(batch);
    return answer;
  }

  async quarantine(ref: ActorRef, reason: string | null): Promise<void> {
    this.quarantines.push([actorKey(ref), reason]);
    await this.#store.quarantine(ref, reason);
  }

  dueTimers(until: number, limit: number, shards?: OwnedShards): Promise<TimerRow[]> {
    return this.#store.dueTimers(until, limit, shards);
  }

  dropTimers(timers: readonly UnhandledTimer[], dueBy: number): Promise<void> {
    return this.#store.dropTimers(timers, dueBy);
  }

  postponeTimer(timer: Pick<TimerRow, 'ref' | 'id'>, dueBy: number, until: number): Promise<void> {
    return this.#store.postponeTimer(timer, dueBy, until);
  }

  nextTimerAt(shards?: OwnedShards): Promise<number | null> {
    return this.#store.nextTimerAt(shards);
  }

  pendingOutbox(limit: number, after: number, shards?: OwnedShards): Promise<PendingOutput[]> {
    for (const [key, row] of this.#database.tables.outbox) {
      if (row.seq === undefined) this.outbox.set(key, { ...row, seq: this.#database.nextSequence() } as OutboxRow);
    }
    return this.#store.pendingOutbox(limit, after, shards);
  }

  journal(ref: ActorRef, limit: number, before?: number): Promise<JournalEntry[]> {
    return this.#store.journal(ref, limit, before);
  }
}

/** The part of a store that the runtime uses, in addition to actors. */
export function makeRuntimeStore(actors: MemoryActorStore, more: { batchesInFlight?: number } = {}) {
  const flushed: PresenceFlush[] = [];
  const requested = {
    open: [] as Uuid[],
    openOfRevoked: [] as { deviceId: Uuid; commandId: Uuid }[],
    plans: [] as Uuid[],
    pending: [] as Uuid[],
    online: [] as Uuid[],
    watching: [] as Awaited<ReturnType<CommandStore['awaitingVerification']>>,
  };
  const devices: Partial<DeviceStore> = {
    online: async () => requested.online,
    flushPresence: async (rows) => {
      flushed.push(...rows);
    },
  };
  const commands: Partial<CommandStore> = {
    open: async () => requested.open,
    openOnRevokedDevices: async () => requested.openOfRevoked,
    deliverable: async () => requested.pending,
    awaitingVerification: async () => requested.watching,
  };
  const plans: PlanStore = {
    list: async () => ({ items: [], next: null, positions: () => [], count: async () => null }),
    open: async () => requested.plans,
    awaitingPlanner: async () => ({ items: [], next: null, positions: () => [], count: async () => null }),
  };
  const store = { actors, devices, commands, plans, batchesInFlight: more.batchesInFlight ?? 1 } as unknown as Store;
  return { store, flushed, requested };
}

export interface LampContext {
  fixed: { id: string; heartbeats: number; note: string | null };
  live: { pressed: number };
}

type LampEvent = MachineEvent & Record<string, unknown>;
const lampAction = actionsFor<LampContext, LampEvent>();

/** A small actor with everything the runtime handles: timers, messages, volatile outputs, transient events, errors. */
export const lamp: MachineDefinition<LampContext> = {
  kind: 'device',
  version: 1,
  machine: setup({
    types: {} as { context: LampContext; events: LampEvent; emitted: Output },
    delays: { DARKNESS: 1_000 },
    actions: {
      setId: lampAction((context, { id }) => ({ changes: changeFixed(context, { id: String(id) }), outputs: [] })),
      press: lampAction(({ fixed, live }, { at }) => ({
        changes: { live: { pressed: live.pressed + 1 } },
        outputs: [{ type: 'device.presence', tenantId: 't', deviceId: fixed.id, online: true, at }],
      })),
      accept: lampAction(() => emit({ type: 'message.accepted', repeat: false })),
      countBeat: lampAction((context) => ({
        changes: changeFixed(context, { heartbeats: context.fixed.heartbeats + 1 }),
        outputs: [],
      })),
      setNote: lampAction((context, { text }) => ({
        changes: changeFixed(context, { note: String(text) }),
        outputs: [],
      })),
      noteRevocation: lampAction((context, { deviceId }) => ({
        changes: changeFixed(context, { note: `informed by ${deviceId}` }),
        outputs: [],
      })),
      boom: lampAction(() => {
        throw new Error('boom');
      }),
      sendTo: lampAction((_, { to, text }) =>
        emit({ type: 'actor.tell', to: to as ActorRef, event: { type: 'device.revoked', deviceId: String(text) } }),
      ),
      sendToAll: lampAction(({ fixed: { id } }) =>
        emit({ type: 'commands.tell', deviceId: id, event: { type: 'device.revoked', deviceId: id } }),
      ),
    },
  }).createMachine({
    id: 'lamp',
    context: { fixed: { id: '', heartbeats: 0, note: null }, live: { pressed: 0 } },
    initial: 'none',
    on: {
      ping: { actions: 'accept' },
      beat: { actions: 'countBeat' },
      note: { actions: 'setNote' },
      boom: { actions: 'boom' },
      sendTo: { actions: 'sendTo' },
      sendToAll: { actions: 'sendToAll' },
      'device.revoked': { actions: 'noteRevocation' },
    },
    states: {
      none: { on: { make: { target: 'off', actions: 'setId' } } },
      off: { on: { press: { target: 'on', actions: 'press' } } },
      on: {
        after: { DARKNESS: 'off' },
        on: { press: 'off', break: 'broken', remake: { target: 'on', reenter: true } },
      },
      broken: { type: 'final' },
    },
  }),
  tenantOf: () => 't',
  toStored: ({ fixed, live }) => ({ fixed: { ...fixed }, live: { ...live } }),
  storedSchema: z.strictObject({}),
  fromStored: (stored) => {
    if (typeof stored.pressed !== 'number') throw new Error('pressed is not a number');
    const { pressed, ...fixed } = stored;
    return { fixed, live: { pressed } } as LampContext;
  },
  columns: () => ({}),
  journal: (event) => (event.type === 'beat' ? null : { data: null }),
  canPassivate: ({ status }) => status === 'done',
  isTransient: (event) => event.type === 'beat',
  toAdminView: ({ fixed, live }) => ({ ...fixed, ...live }),
};
