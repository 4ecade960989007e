import { assign, emit, setup } from 'xstate';
import type { JsonObject, Uuid } from '../../src/domain/values.ts';
import type { MachineDefinition, MachineEvent } from '../../src/machines/definition.ts';
import type { ActorRef, Output } from '../../src/machines/outputs.ts';
import type {
  ActorCommit,
  ActorStore,
  CommandStore,
  DeviceStore,
  JournalEntry,
  OutboxKey,
  OutboxRow,
  PendingOutput,
  PlanStore,
  PresenceFlush,
  SpentTimer,
  Store,
  StoredActor,
  TimerRow,
  TurnCommit,
} from '../../src/store/contract.ts';

const at = (ref: ActorRef) => `${ref.kind}:${ref.id}`;
const outboxKey = (key: OutboxKey) => `${at(key.from)}:${key.version}:${key.n}`;

/** An actor store in memory whose commits a test can hold, fail or lose. */
export class MemoryActors implements ActorStore {
  rows = new Map<string, StoredActor>();
  journals = new Map<string, JournalEntry[]>();
  outbox = new Map<string, OutboxRow>();
  timers = new Map<string, TimerRow>();
  quarantines: [string, string | null][] = [];
  /** In the order in which they are first asked for. */
  private readonly places = new Map<string, number>();
  commits: TurnCommit[] = [];
  loads: string[][] = [];
  /** Called before each commit; what it throws, the commit throws. */
  before: (turn: TurnCommit) => void | Promise<void> = () => {};
  /** Called after each commit took place; what it throws, the commit throws. */
  after: (turn: TurnCommit) => void | Promise<void> = () => {};
  beforeLoad: () => void | Promise<void> = () => {};

  async load(kind: ActorRef['kind'], ids: readonly Uuid[]): Promise<StoredActor[]> {
    await this.beforeLoad();
    this.loads.push([...ids]);
    return ids.flatMap((id) => structuredClone(this.rows.get(`${kind}:${id}`)) ?? []);
  }

  async commit(turn: TurnCommit): Promise<{ lost: ActorRef[] }> {
    await this.before(turn);
    this.commits.push(turn);
    let lost = turn.actors.filter((one) => (this.rows.get(at(one.ref))?.version ?? 0) !== one.readVersion);
    if (turn.whole && lost.length > 0) lost = turn.actors;
    for (const actor of turn.actors) {
      if (lost.includes(actor)) continue;
      const context = actor.settled ? this.moved(actor) : actor.context;
      this.rows.set(at(actor.ref), structuredClone({ ...actor, context, quarantine: null }) as unknown as StoredActor);
      this.journals.set(at(actor.ref), [...(this.journals.get(at(actor.ref)) ?? []), ...actor.journal]);
      for (const { n, output } of actor.outbox) {
        const row = { from: actor.ref, version: actor.version, n, output };
        this.outbox.set(outboxKey(row), row);
      }
      for (const id of actor.timers.clear) this.timers.delete(`${at(actor.ref)}:${id}`);
      for (const timer of actor.timers.set) this.timers.set(`${at(timer.ref)}:${timer.id}`, timer);
      for (const key of actor.delivered) this.outbox.delete(outboxKey(key));
    }
    if (!turn.whole || lost.length === 0) for (const key of turn.delivered) this.outbox.delete(outboxKey(key));
    await this.after(turn);
    return { lost: lost.map(({ ref }) => ref) };
  }

  /** Of a settled commit the moving members count, as in a database: what else it changed would be gone. */
  private moved({ ref, context, moving }: ActorCommit): JsonObject {
    const members = Object.entries(context).filter(([name]) => moving.has(name));
    return { ...this.rows.get(at(ref))?.context, ...Object.fromEntries(members) };
  }

  async quarantine(ref: ActorRef, reason: string | null): Promise<void> {
    this.quarantines.push([at(ref), reason]);
    const row = this.rows.get(at(ref));
    if (row) row.quarantine = reason;
  }

  async dueTimers(until: number, limit: number): Promise<TimerRow[]> {
    const due = [...this.timers.values()].filter((timer) => timer.dueAt <= until);
    return due.sort((a, b) => a.dueAt - b.dueAt).slice(0, limit);
  }

  async dropTimers(timers: readonly SpentTimer[], dueBy: number): Promise<void> {
    for (const { ref, id, version } of timers) {
      if ((this.rows.get(at(ref))?.version ?? 0) > version) continue;
      const key = `${at(ref)}:${id}`;
      if ((this.timers.get(key)?.dueAt ?? Number.POSITIVE_INFINITY) <= dueBy) this.timers.delete(key);
    }
  }

  async putOffTimer({ ref, id }: Pick<TimerRow, 'ref' | 'id'>, dueBy: number, until: number): Promise<void> {
    const key = `${at(ref)}:${id}`;
    const timer = this.timers.get(key);
    if (timer && timer.dueAt <= dueBy) this.timers.set(key, { ...timer, dueAt: until });
  }

  async nextTimerAt(): Promise<number | null> {
    const dues = [...this.timers.values()].map((timer) => timer.dueAt);
    return dues.length > 0 ? Math.min(...dues) : null;
  }

  async pendingOutbox(limit: number, after: number): Promise<PendingOutput[]> {
    for (const key of this.outbox.keys()) if (!this.places.has(key)) this.places.set(key, this.places.size + 1);
    const all = [...this.outbox].map(([key, row]) => ({ ...row, seq: this.places.get(key) as number }));
    return all.filter(({ seq }) => seq > after).slice(0, limit);
  }

  async journal(ref: ActorRef): Promise<JournalEntry[]> {
    return this.journals.get(at(ref)) ?? [];
  }
}

/** The rest of a store as far as the runtime asks for it. */
export function memoryStore(actors: MemoryActors, more: { turnsInFlight?: number } = {}) {
  const flushed: PresenceFlush[] = [];
  const asked = {
    open: [] as Uuid[],
    plans: [] as Uuid[],
    pending: [] as Uuid[],
    online: [] as Uuid[],
    watching: [] as Awaited<ReturnType<CommandStore['watching']>>,
  };
  const devices: Partial<DeviceStore> = {
    online: async () => asked.online,
    flushPresence: async (rows) => {
      flushed.push(...rows);
    },
  };
  const commands: Partial<CommandStore> = {
    open: async () => asked.open,
    pending: async () => asked.pending,
    watching: async () => asked.watching,
  };
  const plans: PlanStore = {
    list: async () => ({ items: [], next: null, places: () => [] }),
    open: async () => asked.plans,
    thought: async () => ({ items: [], next: null, places: () => [] }),
  };
  const store = { actors, devices, commands, plans, turnsInFlight: more.turnsInFlight ?? 1 } as unknown as Store;
  return { store, flushed, asked };
}

interface LampContext {
  id: string;
  pressed: number;
  heartbeats: number;
  note: string | null;
}

/** A small actor with everything the runtime handles: timers, tells, volatile outputs, soft events, throws. */
export const lamp: MachineDefinition<LampContext> = {
  kind: 'device',
  version: 1,
  machine: setup({
    types: {} as { context: LampContext; events: MachineEvent & Record<string, unknown>; emitted: Output },
    delays: { DARKNESS: 1_000 },
    actions: {
      boom: () => {
        throw new Error('boom');
      },
    },
  }).createMachine({
    id: 'lamp',
    context: { id: '', pressed: 0, heartbeats: 0, note: null },
    initial: 'none',
    on: {
      ping: { actions: emit({ type: 'message.accepted', repeat: false }) },
      beat: { actions: assign({ heartbeats: ({ context }) => context.heartbeats + 1 }) },
      note: { actions: assign({ note: ({ event }) => String(event.text) }) },
      boom: {
        actions: assign(() => {
          throw new Error('boom');
        }),
      },
      impure: { actions: 'boom' },
      tell: {
        actions: emit(({ event }) => ({
          type: 'actor.tell',
          to: event.to as ActorRef,
          event: { type: 'device.revoked', deviceId: String(event.text) },
        })),
      },
      tellAll: {
        actions: emit(({ context }) => ({
          type: 'commands.tell',
          deviceId: context.id,
          event: { type: 'device.revoked', deviceId: context.id },
        })),
      },
      'device.revoked': { actions: assign({ note: ({ event }) => `told ${event.deviceId}` }) },
    },
    states: {
      none: { on: { make: { target: 'off', actions: assign({ id: ({ event }) => String(event.id) }) } } },
      off: {
        on: {
          press: {
            target: 'on',
            actions: [
              assign({ pressed: ({ context }) => context.pressed + 1 }),
              emit(({ context, event }) => ({
                type: 'device.presence',
                tenantId: 't',
                deviceId: context.id,
                online: true,
                at: event.at,
              })),
            ],
          },
        },
      },
      on: {
        after: { DARKNESS: 'off' },
        on: { press: 'off', break: 'broken', remake: { target: 'on', reenter: true } },
      },
      broken: { type: 'final' },
    },
  }),
  tenantOf: () => 't',
  toStored: (context) => ({ ...context }) as JsonObject,
  moving: new Set(['pressed']),
  fromStored: (stored) => {
    if (typeof stored.pressed !== 'number') throw new Error('pressed is not a number');
    return stored as unknown as LampContext;
  },
  columns: () => ({}),
  journal: (event) => (event.type === 'beat' ? null : { data: null }),
  rests: ({ status }) => status === 'done',
  isSoft: (event) => event.type === 'beat',
  visible: (context) => ({ ...context }) as JsonObject,
};
