import { describe, expect, it } from 'vitest';
import { Runtime } from '../../../src/actors/runtime.ts';
import type { MachineDefinition } from '../../../src/machines/definition.ts';
import { CommitUnknown, DataRefused, StoreUnavailable } from '../../../src/store/contract.ts';
import { eventLoopTurns, eventually, testClock } from '../../support/clock.ts';
import { MemoryActorStore, makeRuntimeStore } from '../../support/memory-actor-store.ts';
import { fc } from '../../support/properties.ts';
import {
  CREATE,
  CREATED,
  type RelayedMessage,
  relayMachineExpecting,
  relayRef,
  resolveCreate,
  THROWS,
  UNSTORABLE,
} from '../../support/relay-machine.ts';

/*
 * Property: actors that send messages to each other, with random faults and restarts. Each message of a committed
 * transition is received exactly once by its target, in the same batch or through the outbox.
 */

const IDS = ['a', 'b', 'c', 'd'] as const;
const RUNS = 100;

type Trouble = 'away' | 'lost before' | 'lost after' | 'a rival';
type Move =
  | { move: 'say'; from: number; to: number[]; word: 'plain' | typeof THROWS | typeof UNSTORABLE; via?: number[] }
  /** Creates new actors; those `at hand` in the same batch. */
  | { move: 'call'; from: number; called: ('at hand' | 'to be found' | 'unclear')[] }
  /** A number of passes of the event loop. */
  | { move: 'wait'; passes: number }
  | { move: 'passivate' }
  /** Replaces the process after the store has finished the old one's statements. */
  | { move: 'restart' }
  | { move: 'trouble'; trouble: Trouble };

const someone = fc.nat(IDS.length - 1);
const say = fc.record({
  move: fc.constant('say' as const),
  from: someone,
  to: fc.array(someone, { minLength: 1, maxLength: 3 }),
  word: fc.oneof(
    { weight: 8, arbitrary: fc.constant('plain' as const) },
    fc.constant<typeof THROWS | typeof UNSTORABLE>(THROWS),
    fc.constant<typeof THROWS | typeof UNSTORABLE>(UNSTORABLE),
  ),
});
/** Forwarded through up to five other actors: longer than the chain that one batch enlists. */
const passed = say.chain((said) => fc.array(someone, { minLength: 1, maxLength: 5 }).map((via) => ({ ...said, via })));
const call = fc.record({
  move: fc.constant('call' as const),
  from: someone,
  called: fc.array(fc.constantFrom('at hand' as const, 'to be found' as const, 'unclear' as const), {
    ...{ minLength: 1, maxLength: 4 },
  }),
});
const wait = fc.record({ move: fc.constant('wait' as const), passes: fc.integer({ min: 1, max: 4 }) });
const passivate = fc.record({ move: fc.constant('passivate' as const) });
const restart = fc.record({ move: fc.constant('restart' as const) });
const trouble = fc.record({
  move: fc.constant('trouble' as const),
  trouble: fc.constantFrom<Trouble>('away', 'lost before', 'lost after', 'a rival'),
});
const calm = fc.array(fc.oneof({ weight: 6, arbitrary: say }, { weight: 3, arbitrary: wait }), { maxLength: 40 });
const relayed = fc.array(fc.oneof({ weight: 6, arbitrary: passed }, { weight: 3, arbitrary: wait }), { maxLength: 30 });
const stormy = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: say },
    { weight: 3, arbitrary: passed },
    { weight: 3, arbitrary: call },
    { weight: 4, arbitrary: wait },
    trouble,
    passivate,
    restart,
  ),
  { maxLength: 30 },
);

interface World {
  said: Map<string, RelayedMessage[]>;
  heard: Map<string, RelayedMessage[]>;
  /** Messages whose sender received a successful outcome. */
  acknowledged: [from: string, to: string, word: string][];
  store: MemoryActorStore;
}

async function live(
  moves: readonly Move[],
  limits: { enlistedActors: number },
  batchesInFlight: number,
): Promise<World> {
  const store = new MemoryActorStore();
  const clock = testClock();
  const troubles: Trouble[] = [];
  const assemble = (): Runtime => {
    const made = new Runtime({
      store: makeRuntimeStore(store, { batchesInFlight }).store,
      definitions: () => relayMachineExpecting('a', 'b', 'd') as unknown as MachineDefinition,
      clock,
      log: { debug() {}, info() {}, warn() {}, error() {} },
      limits: { ...limits, failuresToQuarantine: Number.POSITIVE_INFINITY, idleMs: 1 },
    });
    made.outbox.registerResolver(
      'plan.ask',
      async (ask) => resolveCreate(ask),
      (ask) => {
        if (ask.commandId.startsWith('unclear')) throw new Error('who knows');
        return ask.commandId.startsWith('at hand') ? resolveCreate(ask) : null;
      },
    );
    return made;
  };
  let runtime = assemble();
  for (const id of IDS) await runtime.actors.create(relayRef(id), { type: 'make', at: 0, id } as never);

  /** Commits in progress, including those of a halted process. */
  let underWay = 0;
  const commit = store.commit.bind(store);
  store.commit = async (...batch) => {
    underWay += 1;
    try {
      return await commit(...batch);
    } finally {
      underWay -= 1;
    }
  };
  let passes = 0;
  let after: Trouble | null = null;
  store.beforeCommit = async ({ actors }) => {
    // Batches in flight finish in a different order than they started.
    passes = (passes * 5 + 3) % 7;
    for (let n = 0; n < passes; n += 1) await new Promise(setImmediate);
    if (actors.some(({ live }) => JSON.stringify(live.heard).includes(UNSTORABLE)))
      throw new DataRefused('22P05', 'no');
    if (actors.length === 0) return;
    const next = troubles.shift();
    if (next === 'away') throw new StoreUnavailable(next);
    if (next === 'lost before') throw new CommitUnknown(next);
    if (next === 'lost after') after = next;
    if (next === 'a rival') {
      const row = store.rows.get(`device:${actors.at(-1)?.ref.id}`);
      if (row) row.version += 1;
    }
  };
  store.afterCommit = () => {
    const now = after;
    after = null;
    if (now !== null) throw new CommitUnknown(now);
  };

  const acknowledged: World['acknowledged'] = [];
  const asked: Promise<unknown>[] = [];
  let count = 0;
  for (const move of moves) {
    switch (move.move) {
      case 'say': {
        const from = IDS[move.from] as string;
        const words = move.to.map((to): RelayedMessage => {
          count += 1;
          return [IDS[to] as string, move.word === 'plain' ? `${count}` : move.word];
        });
        const event = { type: 'say', at: 0, words } as never;
        const sent = runtime.actors.send(relayRef(from), event);
        asked.push(
          sent.then(
            () => acknowledged.push(...words.map(([to, word]) => [from, to, word] as [string, string, string])),
            () => {},
          ),
        );
        break;
      }
      case 'call': {
        const words = move.called.map((how): RelayedMessage => {
          count += 1;
          return [`${how} ${count}`, CREATE];
        });
        const sent = runtime.actors.send(relayRef(IDS[move.from] as string), { type: 'say', at: 0, words } as never);
        asked.push(sent.catch(() => {}));
        break;
      }
      case 'wait':
        for (let n = 0; n < move.passes; n += 1) await new Promise(setImmediate);
        break;
      case 'passivate':
        clock.advance(2);
        runtime.actors.passivate();
        break;
      case 'restart':
        runtime.halt();
        await eventually(() => underWay === 0);
        runtime = assemble();
        await runtime.outbox.sweep();
        break;
      case 'trouble':
        troubles.push(move.trouble);
        break;
    }
  }
  troubles.length = 0;
  await eventually(async () => {
    await runtime.outbox.sweep();
    return underWay === 0 && store.outbox.size === 0 && runtime.actors.stats().waiting === 0;
  });
  // Sends that a halted process had not started never settle; all others settle once the event loop has run.
  await Promise.race([Promise.all(asked), eventLoopTurns()]);
  runtime.halt();
  const contexts = IDS.map(
    (id) =>
      [
        id,
        store.rows.get(`device:${id}`)?.context as never as { said: RelayedMessage[]; heard: RelayedMessage[] },
      ] as const,
  );
  return {
    said: new Map(contexts.map(([id, { said }]) => [id, said])),
    heard: new Map(contexts.map(([id, { heard }]) => [id, heard])),
    acknowledged,
    store,
  };
}

/**
 * Messages sent from one actor to another, in order, without those that the target cannot accept; below, the messages
 * received.
 */
const wordsTo = ({ said }: World, from: string, to: string): string[] =>
  (said.get(from) ?? []).flatMap(([who, word]) =>
    who === to && word !== THROWS && !word.includes(UNSTORABLE) ? [word] : [],
  );
const wordsFrom = ({ heard }: World, from: string, to: string): string[] =>
  (heard.get(to) ?? []).flatMap(([who, word]) => (who === from ? [word] : []));

const pairs = IDS.flatMap((from) => IDS.map((to) => [from, to] as const));

describe.each([1, 2])('with %d batches in flight', (batchesInFlight) => {
  it('every message is received once and in order, with and without enlistment', async () => {
    await fc.assert(
      fc.asyncProperty(calm, fc.integer({ min: 1, max: 4 }), async (moves, enlistedActors) => {
        const together = await live(moves, { enlistedActors }, batchesInFlight);
        const apart = await live(moves, { enlistedActors: 0 }, batchesInFlight);
        for (const [from, to] of pairs) {
          expect(wordsFrom(together, from, to)).toEqual(wordsTo(together, from, to));
          expect(wordsFrom(together, from, to)).toEqual(wordsFrom(apart, from, to));
        }
        expect(together.said).toEqual(apart.said);
      }),
      { numRuns: RUNS },
    );
  });

  it('forwarded messages are received once and in order', async () => {
    await fc.assert(
      fc.asyncProperty(relayed, fc.integer({ min: 0, max: 4 }), async (moves, enlistedActors) => {
        const world = await live(moves, { enlistedActors }, batchesInFlight);
        for (const [from, to] of pairs) expect(wordsFrom(world, from, to)).toEqual(wordsTo(world, from, to));
      }),
      { numRuns: RUNS },
    );
  });

  it('under faults, every committed message is received once, and every acknowledged message is committed', async () => {
    await fc.assert(
      fc.asyncProperty(stormy, fc.constantFrom(0, 2, 4), async (moves, enlistedActors) => {
        const world = await live(moves, { enlistedActors }, batchesInFlight);
        for (const [from, to] of pairs) {
          expect(wordsFrom(world, from, to).toSorted()).toEqual(wordsTo(world, from, to).toSorted());
        }
        for (const [id, said] of world.said) {
          for (const [called, word] of said) {
            if (word !== CREATE) continue;
            expect([world.store.journals.get(`device:${called}`)?.length, wordsFrom(world, called, id)]).toEqual([
              ...[1, [CREATED]],
            ]);
          }
        }
        const called = [...world.said.values()].flat().filter(([, word]) => word === CREATE);
        expect(world.store.rows.size).toBe(IDS.length + called.length);
        for (const [from, to, word] of world.acknowledged) expect(world.said.get(from)).toContainEqual([to, word]);
        for (const entries of world.store.journals.values()) {
          const versions = entries.map(({ version }) => version);
          expect(versions).toEqual(versions.toSorted((one, other) => one - other));
          expect(new Set(versions).size).toBe(versions.length);
        }
      }),
      { numRuns: RUNS },
    );
  });
});
