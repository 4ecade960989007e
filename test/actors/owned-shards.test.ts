import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Committed, NotOwner, Quarantined } from '../../src/actors/contract.ts';
import { LocalShards, tenantIdIn } from '../../src/actors/owned-shards.ts';
import { Runtime } from '../../src/actors/runtime.ts';
import { type OwnedShards, shardOf } from '../../src/domain/shards.ts';
import type { MachineDefinition, MachineEvent } from '../../src/machines/definition.ts';
import { type Store, StoreUnavailable } from '../../src/store/contract.ts';
import { eventLoopTurns, eventually, type TestClock, testClock } from '../support/clock.ts';
import { silentLog } from '../support/lock-parts.ts';
import { type LampContext, lamp, MemoryActorStore, makeRuntimeStore } from '../support/memory-actor-store.ts';

/** The shard of an actor is the end of its id: `lamp 01` is in shard 1. */
const definition = {
  ...lamp,
  tenantOf: ({ fixed: { id } }: LampContext) => id,
} as unknown as MachineDefinition;
const ref = (id: string) => ({ kind: 'device', id }) as const;
const CLOSE_MS = 5_000;

let memory: MemoryActorStore;
let clock: TestClock;
let nodes: { shards: LocalShards; runtime: Runtime; store: Store }[];

function openNode(): (typeof nodes)[number] {
  const shards = new LocalShards();
  const { store } = makeRuntimeStore(memory);
  const runtime = new Runtime({ store, definitions: () => definition, clock, log: silentLog, shards });
  const node = { shards, runtime, store };
  nodes.push(node);
  return node;
}

beforeEach(() => {
  memory = new MemoryActorStore();
  clock = testClock();
  nodes = [];
});
afterEach(() => {
  for (const { runtime } of nodes) runtime.halt();
});

const event = (type: string, more: object = {}): MachineEvent => ({ type, at: clock.now(), ...more }) as MachineEvent;
const make = ({ runtime }: Pick<(typeof nodes)[number], 'runtime' | 'shards'>, id: string) =>
  runtime.actors.create(ref(id), event('make', { id }));
const pressedOf = (committed: Committed | null) =>
  (committed?.snapshot.context as LampContext | undefined)?.live.pressed;

it('a new tenant gets an id in a shard that the node owns and keeps', () => {
  const shards = new LocalShards();
  shards.add([1, 2]);
  shards.startLeaving([1]);
  expect(shards.admitted).toEqual([2]);
  const newId = () => '0195d9a2-7f00-7000-8000-0000000000ff';
  expect(shardOf(tenantIdIn(shards.admitted, newId))).toBe(2);
  shards.stay([1]);
  expect(shards.admitted).toEqual([1, 2]);
  // A node without shards keeps the id, which falls into any shard.
  expect(tenantIdIn([], newId)).toBe(newId());
  expect(tenantIdIn(null, newId)).toBe(newId());
});

describe('a node without the shard of an actor', () => {
  it('neither creates nor changes the actor', async () => {
    const [owner, other] = [openNode(), openNode()];
    await owner.runtime.openShards([1]);
    await other.runtime.openShards([2]);
    await make(owner, 'lamp 01');
    await expect(make(other, 'lamp 01')).rejects.toBeInstanceOf(NotOwner);
    await expect(other.runtime.actors.send(ref('lamp 01'), event('press'))).rejects.toBeInstanceOf(NotOwner);
    expect(pressedOf(await owner.runtime.actors.read(ref('lamp 01')))).toBe(0);
  });

  it('reads its state from the store each time', async () => {
    const [owner, other] = [openNode(), openNode()];
    await owner.runtime.openShards([1]);
    await make(owner, 'lamp 01');
    for (const version of [2, 3]) {
      await owner.runtime.actors.send(ref('lamp 01'), event('press'));
      expect(await other.runtime.actors.read(ref('lamp 01'))).toMatchObject({ version });
    }
    expect(other.runtime.actors.stats().live).toBe(0);
  });

  it('does not fire its timers', async () => {
    const [owner, other] = [openNode(), openNode()];
    await owner.runtime.openShards([1]);
    await make(owner, 'lamp 01');
    await owner.runtime.actors.send(ref('lamp 01'), event('press'));
    clock.advance(2_000);
    await other.runtime.timers.tick();
    expect(await memory.dueTimers(clock.now(), 10)).toHaveLength(1);
    await owner.runtime.timers.tick();
    expect(await memory.dueTimers(clock.now(), 10)).toHaveLength(0);
  });
});

describe('a shard that stays because its actors do not become idle', () => {
  const device = ref('lamp 01');
  const ofShard1 =
    <T>(rows: T[]) =>
    (shards?: OwnedShards) =>
      Promise.resolve(shards?.includes(1) ? rows : []);
  let node: (typeof nodes)[number];

  beforeEach(async () => {
    node = openNode();
    await node.runtime.openShards([1, 2]);
    await make(node, device.id);
  });

  /** Runs `meanwhile` while the shard is being unloaded. */
  async function stay(meanwhile: () => unknown): Promise<void> {
    const { runtime } = node;
    const held = Promise.withResolvers<void>();
    memory.beforeCommit = () => held.promise;
    const noted = runtime.actors.send(device, event('note', { text: 'x' }));
    const closing = runtime.closeShards(new Set([1]), CLOSE_MS);
    await meanwhile();
    clock.advance(CLOSE_MS);
    expect(await closing).toBe(false);
    runtime.keepShards(new Set([1]));
    held.resolve();
    await noted;
  }

  it('has its timers fired, although they were not read in that time', async () => {
    const { runtime } = node;
    await runtime.actors.send(device, event('press'));
    runtime.timers.start();
    await stay(() => runtime.timers.tick());
    await eventually(() => runtime.actors.peek(device)?.snapshot.value === 'off');
  });

  it('has its verification watches again', async () => {
    const { runtime, store } = node;
    const watch = { deviceId: device.id, commandId: 'command', expected: { on: true }, seen: false };
    store.commands.awaitingVerification = ofShard1([watch]);
    const known = () => runtime.watches.forDevice(device.id);
    await runtime.watches.load();
    expect(known()).toHaveLength(1);
    await stay(async () => {
      await runtime.watches.load();
      expect(known()).toHaveLength(0);
    });
    await eventually(() => known().length === 1);
  });

  it('marks a device offline whose session ended in that time, once the store can be read', async () => {
    const { runtime, store } = node;
    const { sessions } = runtime;
    const session = { deviceId: device.id, tenantId: 'tenant 01', sessionId: 's', keyVersion: 1, subscribed: false };
    const sent: string[] = [];
    const send = runtime.actors.send.bind(runtime.actors);
    runtime.actors.send = (to, sentEvent, options) => {
      const reply = send(to, sentEvent, options);
      reply.then(
        () => sent.push(sentEvent.type),
        () => sent.push(`${sentEvent.type} refused`),
      );
      return reply;
    };
    sessions.open(session);
    await stay(async () => {
      sessions.close(device.id, 's');
      await eventually(() => sent.length > 0);
    });
    store.devices.online = () => Promise.reject(new StoreUnavailable('gone'));
    await sessions.tick();
    store.devices.online = ofShard1([device.id]);
    await sessions.tick();
    clock.advance(59_999);
    // Another attempt to unload the shard does not postpone the check.
    sessions.shardsStayed([1]);
    await sessions.tick();
    expect(sent).toHaveLength(2);
    clock.advance(1);
    await sessions.tick();
    await eventually(() => sent.length === 3);
    expect(sent).toEqual(['presence.lost refused', 'note', 'presence.lost']);
  });
});

describe('a shard that moves', () => {
  it('is closed when its actors are idle, and opened with their state', async () => {
    const [first, second] = [openNode(), openNode()];
    await first.runtime.openShards([1, 2]);
    await make(first, 'lamp 01');
    await make(first, 'lamp 02');
    const pressed = first.runtime.actors.send(ref('lamp 01'), event('press'));
    expect(await first.runtime.closeShards(new Set([1]), CLOSE_MS)).toBe(true);
    expect(pressedOf(await pressed)).toBe(1);
    expect(first.shards.list).toEqual([2]);
    expect(first.runtime.actors.stats().live).toBe(1);
    await expect(first.runtime.actors.send(ref('lamp 01'), event('press'))).rejects.toBeInstanceOf(NotOwner);
    await second.runtime.openShards([1]);
    expect(pressedOf(await second.runtime.actors.send(ref('lamp 01'), event('note', { text: 'x' })))).toBe(1);
  });

  it('ends after its operations, and no other one begins', async () => {
    const { runtime, shards } = openNode();
    await runtime.openShards([1, 2]);
    const leave = runtime.actors.enter('tenant 01');
    const leaving = runtime.startLeaving(new Set([1]), CLOSE_MS);
    expect([runtime.actors.enter('tenant 01'), runtime.actors.owns('tenant 01')]).toEqual([null, false]);
    expect(runtime.actors.enter('tenant 02')).not.toBeNull();
    leave?.();
    expect(await leaving).toBe(true);
    runtime.keepShards(new Set([1]));
    expect(runtime.actors.enter('tenant 01')).not.toBeNull();
    expect(shards.list).toEqual([1, 2]);
  });

  it('interrupts the operations that last, and stays if they do not end', async () => {
    const { runtime } = openNode();
    await runtime.openShards([1]);
    const upload = runtime.actors.enter('tenant 01', () => upload?.());
    const ended = runtime.startLeaving(new Set([1]), CLOSE_MS);
    clock.advance(CLOSE_MS);
    expect(await ended).toBe(true);
    runtime.keepShards(new Set([1]));
    let interrupted = false;
    runtime.actors.enter('tenant 01', () => {
      interrupted = true;
    });
    const left = runtime.startLeaving(new Set([1]), CLOSE_MS);
    await eventually(() => {
      clock.advance(CLOSE_MS);
      return interrupted;
    });
    await eventLoopTurns();
    clock.advance(CLOSE_MS);
    expect(await left).toBe(false);
  });

  it('stays open if its actors do not become idle', async () => {
    const { runtime, shards } = openNode();
    await runtime.openShards([1]);
    await make({ runtime, shards }, 'lamp 01');
    const held = Promise.withResolvers<void>();
    memory.beforeCommit = () => held.promise;
    const pressed = runtime.actors.send(ref('lamp 01'), event('press'));
    const closing = runtime.closeShards(new Set([1]), 50);
    await eventually(() => {
      clock.advance(60);
      return shards.list.includes(1);
    });
    expect(await closing).toBe(false);
    held.resolve();
    await pressed;
    expect(pressedOf(await runtime.actors.send(ref('lamp 01'), event('note', { text: 'x' })))).toBe(1);
  });

  it('waits for the end of a quarantine that is being stored, and ends none while it leaves', async () => {
    const { runtime, shards } = openNode();
    await runtime.openShards([1]);
    await make({ runtime, shards }, 'lamp 01');
    const held = Promise.withResolvers<void>();
    const storing = Promise.withResolvers<void>();
    const quarantine = memory.quarantine.bind(memory);
    memory.quarantine = async (...given) => {
      storing.resolve();
      await held.promise;
      return quarantine(...given);
    };
    const released = runtime.actors.releaseQuarantine(ref('lamp 01'));
    await storing.promise;
    let hasLeft = false;
    const leaving = runtime.startLeaving(new Set([1]), CLOSE_MS).then((ended) => {
      hasLeft = true;
      return ended;
    });
    await eventLoopTurns();
    expect(hasLeft).toBe(false);
    await expect(runtime.actors.releaseQuarantine(ref('lamp 01'))).rejects.toBeInstanceOf(NotOwner);
    held.resolve();
    expect([await released, await leaving]).toEqual([true, true]);
  });

  it('leaves no actor in memory whose row cannot be read', async () => {
    const [first, second] = [openNode(), openNode()];
    await first.runtime.openShards([1]);
    await make(first, 'lamp 01');
    expect(await first.runtime.closeShards(new Set([1]), CLOSE_MS)).toBe(true);
    const [key, row] = [...memory.rows][0] ?? [];
    if (key === undefined || row === undefined) throw new Error('no row');
    memory.rows.set(key, { ...row, tenantId: 'lamp 01', value: 'unknown' } as never);
    await second.runtime.openShards([1]);
    await expect(second.runtime.actors.send(ref('lamp 01'), event('press'))).rejects.toBeInstanceOf(Quarantined);
    expect(await second.runtime.closeShards(new Set([1]), CLOSE_MS)).toBe(true);
    expect(second.runtime.actors.stats().live).toBe(0);
    memory.rows.set(key, row);
    await second.runtime.openShards([1]);
    expect(pressedOf(await second.runtime.actors.send(ref('lamp 01'), event('press')))).toBe(1);
  });

  it('waits for an actor whose creation is being committed', async () => {
    const { runtime, shards } = openNode();
    await runtime.openShards([1]);
    const held = Promise.withResolvers<void>();
    const committing = Promise.withResolvers<void>();
    memory.beforeCommit = () => {
      committing.resolve();
      return held.promise;
    };
    const created = make({ runtime, shards }, 'lamp 01');
    await committing.promise;
    const closed = runtime.closeShards(new Set([1]), CLOSE_MS);
    held.resolve();
    expect(await closed).toBe(true);
    await expect(created).resolves.toMatchObject({ version: 1 });
    expect(runtime.actors.stats().live).toBe(0);
  });

  it('takes no new actor while it is closed', async () => {
    const { runtime, shards } = openNode();
    await runtime.openShards([1]);
    const refused = expect(make({ runtime, shards }, 'lamp 01')).rejects.toBeInstanceOf(NotOwner);
    expect(await runtime.closeShards(new Set([1]), CLOSE_MS)).toBe(true);
    await refused;
    expect(runtime.actors.stats().live).toBe(0);
  });

  it('is closed while actors of other shards are created all the time', async () => {
    const { runtime, shards } = openNode();
    memory.beforeCommit = () => eventLoopTurns();
    await runtime.openShards([1, 2]);
    let creating = true;
    let n = 0;
    const create = async (): Promise<void> => {
      while (creating) {
        n += 1;
        await make({ runtime, shards }, `lamp ${n} 02`);
      }
    };
    const clients = Array.from({ length: 8 }, create);
    expect(await runtime.closeShards(new Set([1]), CLOSE_MS)).toBe(true);
    creating = false;
    await Promise.all(clients);
  });

  it('is open when the outputs that its previous owner left were read, also during another sweep', async () => {
    const { runtime } = openNode();
    const read: (OwnedShards | undefined)[] = [];
    const gate = Promise.withResolvers<void>();
    memory.pendingOutbox = async (_limit, _after, shards) => {
      read.push(shards);
      if (read.length === 2) await gate.promise;
      return [];
    };
    await runtime.openShards([2]);
    void runtime.outbox.sweep();
    const opening = runtime.openShards([1]);
    gate.resolve();
    await opening;
    expect(read.at(-1)).toEqual([2, 1]);
  });

  it('is not read by a query that began before it was opened', async () => {
    const [old, next] = [openNode(), openNode()];
    await old.runtime.openShards([1]);
    await make(old, 'lamp 01');
    const load = memory.load.bind(memory);
    const started = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    memory.load = async (kind, ids) => {
      const rows = await load(kind, ids);
      memory.load = load;
      started.resolve();
      await release.promise;
      return rows;
    };
    const before = next.runtime.actors.read(ref('lamp 01'));
    await started.promise;
    await old.runtime.actors.send(ref('lamp 01'), event('press'));
    await old.runtime.closeShards(new Set([1]), CLOSE_MS);
    await next.runtime.openShards([1]);
    const after = next.runtime.actors.read(ref('lamp 01'));
    release.resolve();
    await before;
    expect(await after).toMatchObject({ version: 2 });
  });

  it('is read again if it comes back while an actor is loaded', async () => {
    const [first, second] = [openNode(), openNode()];
    await first.runtime.openShards([1]);
    await make(first, 'lamp 01');
    await first.runtime.closeShards(new Set([1]), CLOSE_MS);
    // The query begins while the node owns the shard, and ends after another node has changed the row.
    await first.runtime.openShards([1]);
    const load = memory.load.bind(memory);
    const started = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    memory.load = async (kind, ids) => {
      const rows = await load(kind, ids);
      memory.load = load;
      started.resolve();
      await release.promise;
      return rows;
    };
    const read = first.runtime.actors.read(ref('lamp 01'));
    await started.promise;
    await first.runtime.closeShards(new Set([1]), CLOSE_MS);
    await second.runtime.openShards([1]);
    await second.runtime.actors.send(ref('lamp 01'), event('press'));
    await second.runtime.closeShards(new Set([1]), CLOSE_MS);
    await first.runtime.openShards([1]);
    release.resolve();
    expect(pressedOf(await read)).toBe(1);
  });

  it('loses no event and repeats none, whenever it moves', async () => {
    const pair = [openNode(), openNode()] as const;
    await pair[0].runtime.openShards([1, 2]);
    await make(pair[0], 'lamp 01');
    await make(pair[0], 'lamp 02');
    const notes = new Map<string, number>();
    let moving = true;
    const sender = async (id: string): Promise<void> => {
      for (let n = 0; moving || n < 50; n += 1) {
        const answers = await Promise.allSettled(
          pair.map(({ runtime }) => runtime.actors.send(ref(id), event('note', { text: `${n}` }))),
        );
        const done = answers.filter(({ status }) => status === 'fulfilled').length;
        notes.set(id, (notes.get(id) ?? 0) + done);
        for (const answer of answers) {
          if (answer.status === 'rejected') expect(answer.reason).toBeInstanceOf(NotOwner);
        }
      }
    };
    const sending = Promise.all(['lamp 01', 'lamp 02'].map(sender));
    for (let n = 0; n < 20; n += 1) {
      const [from, to] = n % 2 === 0 ? pair : [pair[1], pair[0]];
      expect(await from.runtime.closeShards(new Set([1]), CLOSE_MS)).toBe(true);
      await to.runtime.openShards([1]);
    }
    moving = false;
    await sending;
    const owner = pair.find(({ shards }) => shards.list.includes(1));
    for (const [id, node] of [
      ['lamp 01', owner],
      ['lamp 02', pair[0]],
    ] as const) {
      const stored = await node?.runtime.actors.read(ref(id));
      expect(stored?.version).toBe(1 + (notes.get(id) ?? Number.NaN));
    }
  });
});
