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
  | { move: 'send'; from: number; to: number[]; text: 'plain' | typeof THROWS | typeof UNSTORABLE; via?: number[] }
  /** Creates new actors; those `at hand` in the same batch. */
  | { move: 'create'; from: number; created: ('at hand' | 'to be found' | 'unclear')[] }
  /** A number of passes of the event loop. */
  | { move: 'wait'; passes: number }
  | { move: 'passivate' }
  /** Replaces the process after the store has finished the old one's statements. */
  | { move: 'restart' }
  | { move: 'trouble'; trouble: Trouble };

const someone = fc.nat(IDS.length - 1);
const sendMove = fc.record({
  move: fc.constant('send' as const),
  from: someone,
  to: fc.array(someone, { minLength: 1, maxLength: 3 }),
  text: fc.oneof(
    { weight: 8, arbitrary: fc.constant('plain' as const) },
    fc.constant<typeof THROWS | typeof UNSTORABLE>(THROWS),
    fc.constant<typeof THROWS | typeof UNSTORABLE>(UNSTORABLE),
  ),
});
/** Forwarded through up to five other actors: longer than the chain that one batch enlists. */
const passed = sendMove.chain((sent) =>
  fc.array(someone, { minLength: 1, maxLength: 5 }).map((via) => ({ ...sent, via })),
);
const createMove = fc.record({
  move: fc.constant('create' as const),
  from: someone,
  created: fc.array(fc.constantFrom('at hand' as const, 'to be found' as const, 'unclear' as const), {
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
const calm = fc.array(fc.oneof({ weight: 6, arbitrary: sendMove }, { weight: 3, arbitrary: wait }), { maxLength: 40 });
const relayed = fc.array(fc.oneof({ weight: 6, arbitrary: passed }, { weight: 3, arbitrary: wait }), { maxLength: 30 });
const stormy = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: sendMove },
    { weight: 3, arbitrary: passed },
    { weight: 3, arbitrary: createMove },
    { weight: 4, arbitrary: wait },
    trouble,
    passivate,
    restart,
  ),
  { maxLength: 30 },
);

interface World {
  sent: Map<string, RelayedMessage[]>;
  received: Map<string, RelayedMessage[]>;
  /** Messages whose sender received a successful outcome. */
  acknowledged: [from: string, to: string, text: string][];
  store: MemoryActorStore;
}

async function simulate(
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
        if (ask.commandId.startsWith('unclear')) throw new Error('not known');
        return ask.commandId.startsWith('at hand') ? resolveCreate(ask) : null;
      },
    );
    return made;
  };
  let runtime = assemble();
  for (const id of IDS) await runtime.actors.create(relayRef(id), { type: 'create', at: 0, id } as never);

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
    if (actors.some(({ live }) => JSON.stringify(live.received).includes(UNSTORABLE)))
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
  const replies: Promise<unknown>[] = [];
  let count = 0;
  for (const move of moves) {
    switch (move.move) {
      case 'send': {
        const from = IDS[move.from] as string;
        const messages = move.to.map((to): RelayedMessage => {
          count += 1;
          return [IDS[to] as string, move.text === 'plain' ? `${count}` : move.text];
        });
        const event = { type: 'send', at: 0, messages } as never;
        const sent = runtime.actors.send(relayRef(from), event);
        replies.push(
          sent.then(
            () => acknowledged.push(...messages.map(([to, text]) => [from, to, text] as [string, string, string])),
            () => {},
          ),
        );
        break;
      }
      case 'create': {
        const messages = move.created.map((how): RelayedMessage => {
          count += 1;
          return [`${how} ${count}`, CREATE];
        });
        const sent = runtime.actors.send(relayRef(IDS[move.from] as string), {
          type: 'send',
          at: 0,
          messages,
        } as never);
        replies.push(sent.catch(() => {}));
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
  await Promise.race([Promise.all(replies), eventLoopTurns()]);
  runtime.halt();
  const contexts = IDS.map(
    (id) =>
      [
        id,
        store.rows.get(`device:${id}`)?.context as never as { sent: RelayedMessage[]; received: RelayedMessage[] },
      ] as const,
  );
  return {
    sent: new Map(contexts.map(([id, { sent }]) => [id, sent])),
    received: new Map(contexts.map(([id, { received }]) => [id, received])),
    acknowledged,
    store,
  };
}

/**
 * Messages sent from one actor to another, in order, without those that the target cannot accept; below, the messages
 * received.
 */
const textsSent = ({ sent }: World, from: string, to: string): string[] =>
  (sent.get(from) ?? []).flatMap(([peer, text]) =>
    peer === to && text !== THROWS && !text.includes(UNSTORABLE) ? [text] : [],
  );
const textsReceived = ({ received }: World, from: string, to: string): string[] =>
  (received.get(to) ?? []).flatMap(([peer, text]) => (peer === from ? [text] : []));

const pairs = IDS.flatMap((from) => IDS.map((to) => [from, to] as const));

describe.each([1, 2])('with %d batches in flight', (batchesInFlight) => {
  it('every message is received once and in order, with and without enlistment', async () => {
    await fc.assert(
      fc.asyncProperty(calm, fc.integer({ min: 1, max: 4 }), async (moves, enlistedActors) => {
        const together = await simulate(moves, { enlistedActors }, batchesInFlight);
        const separate = await simulate(moves, { enlistedActors: 0 }, batchesInFlight);
        for (const [from, to] of pairs) {
          expect(textsReceived(together, from, to)).toEqual(textsSent(together, from, to));
          expect(textsReceived(together, from, to)).toEqual(textsReceived(separate, from, to));
        }
        expect(together.sent).toEqual(separate.sent);
      }),
      { numRuns: RUNS },
    );
  });

  it('forwarded messages are received once and in order', async () => {
    await fc.assert(
      fc.asyncProperty(relayed, fc.integer({ min: 0, max: 4 }), async (moves, enlistedActors) => {
        const world = await simulate(moves, { enlistedActors }, batchesInFlight);
        for (const [from, to] of pairs) expect(textsReceived(world, from, to)).toEqual(textsSent(world, from, to));
      }),
      { numRuns: RUNS },
    );
  });

  it('under faults, every committed message is received once, and every acknowledged message is committed', async () => {
    await fc.assert(
      fc.asyncProperty(stormy, fc.constantFrom(0, 2, 4), async (moves, enlistedActors) => {
        const world = await simulate(moves, { enlistedActors }, batchesInFlight);
        for (const [from, to] of pairs) {
          expect(textsReceived(world, from, to).toSorted()).toEqual(textsSent(world, from, to).toSorted());
        }
        for (const [id, sent] of world.sent) {
          for (const [created, text] of sent) {
            if (text !== CREATE) continue;
            expect([world.store.journals.get(`device:${created}`)?.length, textsReceived(world, created, id)]).toEqual([
              ...[1, [CREATED]],
            ]);
          }
        }
        const created = [...world.sent.values()].flat().filter(([, text]) => text === CREATE);
        expect(world.store.rows.size).toBe(IDS.length + created.length);
        for (const [from, to, text] of world.acknowledged) expect(world.sent.get(from)).toContainEqual([to, text]);
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
