import { deepStrictEqual } from 'node:assert';
import { describe, expect, it, vi } from 'vitest';
import { type AnyMachineSnapshot, type AnyStateMachine, assign, cancel, not, raise, setup, stateIn } from 'xstate';
import type { TransitionResult } from '../../src/actors/compiled-machine.ts';
import { blankSnapshot, decide, restoreSnapshot, transitionByXState } from '../../src/actors/decide.ts';
import { actionsFor, guardsFor } from '../../src/machines/decision.ts';
import type { MachineDefinition } from '../../src/machines/definition.ts';
import { deviceDefinition } from '../../src/machines/device-record.ts';
import { fc, seed } from '../support/properties.ts';
import { built, charts, type Nudge } from './random-charts.ts';

const ACTORS = 3;
/** Split into several tests, so that each finishes well within the time limit. */
const PARTS = Array.from({ length: 4 }, (_, n) => n + 1);

/** The same actor twice: each transition computed by XState, and by compiled transitions. */
interface Twin {
  stepped: AnyMachineSnapshot;
  learnt: AnyMachineSnapshot;
}

const definitionOf = (machine: AnyStateMachine) => ({ machine }) as unknown as MachineDefinition;

const eventsOf = (machine: AnyStateMachine): string[] =>
  [...machine.events, 'unheard'].filter((event) => !event.startsWith('xstate.done'));

/** The result, or the error that was thrown. */
function tried(deed: () => TransitionResult): { decided: TransitionResult | null; error: unknown } {
  try {
    return { decided: deed(), error: null };
  } catch (error) {
    return { decided: null, error };
  }
}

const told = (snapshot: AnyMachineSnapshot) => ({
  ...(JSON.parse(JSON.stringify(snapshot)) as object),
  tags: [...snapshot.tags].sort(),
  nodes: snapshot._nodes.map(({ id }) => id).sort(),
});

function takes(definition: MachineDefinition, twin: Twin, event: Nudge): void {
  const stepped = tried(() => transitionByXState(definition, twin.stepped, event));
  const learnt = tried(() => decide(definition, twin.learnt, event));
  deepStrictEqual(learnt.error, stepped.error);
  if (!stepped.decided || !learnt.decided) return;
  const { snapshot, ...said } = stepped.decided;
  const { snapshot: reached, ...saidToo } = learnt.decided;
  deepStrictEqual([reached === twin.learnt, told(reached), saidToo], [snapshot === twin.stepped, told(snapshot), said]);
  twin.stepped = snapshot;
  twin.learnt = reached;
}

describe('a compiled transition', () => {
  const nudges = fc.array(
    fc.record({ actor: fc.nat(ACTORS - 1), event: fc.nat(40), n: fc.nat(12), restored: fc.nat(15) }),
    { maxLength: 200, size: 'max' },
  );

  it.each(PARTS)('equals the transition of XState for random charts (part %i)', (part) => {
    fc.assert(
      fc.property(charts, nudges, (chart, walk) => {
        const machine = built(chart);
        const definition = definitionOf(machine);
        const twins = Array.from({ length: ACTORS }, (): Twin => {
          const snapshot = blankSnapshot(definition);
          return { stepped: snapshot, learnt: snapshot };
        });
        if (twins[0]?.stepped.status === 'error') return;
        const events = eventsOf(machine);
        for (const { actor, event, n, restored } of walk) {
          const twin = twins[actor] as Twin;
          takes(definition, twin, { type: events[event % events.length] as string, at: n, n });
          if (restored !== 0) continue;
          const { value, context } = JSON.parse(JSON.stringify(twin.stepped));
          twin.stepped = restoreSnapshot(definition, value, context);
          twin.learnt = restoreSnapshot(definition, value, structuredClone(context));
        }
      }),
      { numRuns: 20, seed: seed + part },
    );
  });

  it('does not include the transitions of raised events, which run after earlier raised events', () => {
    const { machine, heard } = raisingTwice();
    const definition = definitionOf(machine);
    for (const _ of ['learning', 'learnt']) {
      const { snapshot } = decide(definition, blankSnapshot(definition), go);
      expect((snapshot.context as Heard).readied).toBe(true);
    }
    expect(heard.slice(-3)).toEqual(['first', 'second', 'third']);
  });

  it('is computed by XState once for all actors', () => {
    const { machine, heard } = raisingTwice();
    const definition = definitionOf(machine);
    decide(definition, blankSnapshot(definition), go);
    const asked = vi.spyOn(machine, 'transition');
    heard.length = 0;
    const [one, other] = [
      restoreSnapshot(definition, { left: {}, right: {} }, { readied: false }),
      blankSnapshot(definition),
    ].map((from) => decide(definition, from, go));
    expect(asked).not.toHaveBeenCalled();
    expect(heard).toHaveLength(6);
    expect(one?.snapshot._nodes).toBe(other?.snapshot._nodes);
    expect(one?.snapshot.value).toBe(other?.snapshot.value);
  });
});

interface Heard extends Record<string, unknown> {
  readied: boolean;
}
const go: Nudge = { type: 'go', at: 0, n: 0 };

/** Two regions raise one event each; the reaction to the first must see the effect of the second. */
function raisingTwice() {
  const heard: string[] = [];
  const act = actionsFor<Heard, Nudge>();
  const raising = (word: string) =>
    act((_, { type }) => {
      if (type !== 'go') heard.push(type);
      return { changes: null, outputs: [], raised: { ...go, type: word } };
    });
  const machine = setup({
    types: { context: {} as Heard, events: {} as Nudge },
    actions: {
      raiseFirst: raising('first'),
      raiseSecond: raising('second'),
      raiseThird: raising('third'),
      ready: act((_, { type }) => {
        heard.push(type);
        return { changes: { readied: true }, outputs: [] };
      }),
      use: act(({ readied }, { type }) => {
        if (!readied) throw new Error('used before it was ready');
        heard.push(type);
        return { changes: null, outputs: [] };
      }),
    },
  }).createMachine({
    type: 'parallel',
    context: { readied: false },
    states: {
      left: { on: { go: { actions: 'raiseFirst' }, first: { actions: 'raiseThird' }, third: { actions: 'use' } } },
      right: { on: { go: { actions: 'raiseSecond' }, second: { actions: 'ready' } } },
    },
  });
  return { machine: machine as unknown as AnyStateMachine, heard };
}

describe('a restored state value', () => {
  const { machine } = deviceDefinition;
  const stored = { link: 'offline', administration: { active: 'one_key' } };
  const definition = deviceDefinition as unknown as MachineDefinition;

  it('has its regions in the order of the chart, whatever order the store returned', () => {
    const { value } = restoreSnapshot(definition, stored, {});
    expect(Object.keys(value)).toEqual(Object.keys(machine.states));
    expect(value).toEqual(stored);
    expect(value).toBe(
      restoreSnapshot(definition, { administration: { active: 'one_key' }, link: 'offline' }, {}).value,
    );
  });

  it('is rejected if the chart does not have it', () => {
    for (const value of [{ ...stored, cellar: 'dark' }, { ...stored, link: 'loose' }, 'active']) {
      expect(() => restoreSnapshot(definition, value, {})).toThrow(/does not exist|cellar/);
    }
  });
});

describe('the choice of transitions', () => {
  const act = actionsFor<{ open: boolean }, Nudge>();
  const when = guardsFor<{ open: boolean }, Nudge>();
  const machine = setup({
    types: { context: {} as { open: boolean }, events: {} as Nudge },
    actions: {
      say: act((_, __, { word }: { word: string }) => ({ changes: null, outputs: [{ type: 'said', word } as never] })),
    },
    guards: {
      isOpen: when(({ open }) => open),
      isOver: when((_, { n }, { most }: { most: number }) => n > most),
      isLit: stateIn({ lamp: 'lit' }),
      isShut: not('isOpen'),
      stumbles: when(() => {
        throw new Error('a guard stumbled');
      }),
    },
  }).createMachine({
    type: 'parallel',
    context: { open: true },
    on: { count: { actions: { type: 'say', params: { word: 'outer' } } } },
    states: {
      lamp: { initial: 'dark', states: { dark: { on: { light: 'lit' } }, lit: { on: { light: 'dark' } } } },
      door: {
        initial: 'here',
        on: { knock: { actions: { type: 'say', params: { word: 'around' } } } },
        states: {
          here: {
            on: {
              knock: [
                { guard: { type: 'isOver', params: { most: 7 } }, actions: { type: 'say', params: { word: 'loud' } } },
                { guard: 'isLit', actions: { type: 'say', params: { word: 'lit' } } },
                { guard: { type: 'isOver', params: { most: 3 } }, actions: { type: 'say', params: { word: 'heard' } } },
              ],
              count: { guard: 'isOpen', actions: { type: 'say', params: { word: 'inner' } } },
              push: { guard: 'isShut', actions: { type: 'say', params: { word: 'shut' } } },
              trip: { guard: 'stumbles' },
            },
          },
        },
      },
    },
  }) as unknown as AnyStateMachine;
  const definition = definitionOf(machine);
  const nudge = (type: string, n: number): Nudge => ({ type, at: 0, n });
  const taken = (n: number, type: string, { lit = false, open = true } = {}) => {
    const from = restoreSnapshot(definition, { lamp: lit ? 'lit' : 'dark', door: 'here' }, { open });
    const decided = tried(() => decide(definition, from, nudge(type, n)));
    const stepped = tried(() => transitionByXState(definition, from, nudge(type, n)));
    expect(decided.error).toEqual(stepped.error);
    expect(decided.decided?.outputs).toEqual(stepped.decided?.outputs);
    return decided.decided?.outputs.map((output) => (output as unknown as { word: string }).word) ?? decided.error;
  };

  it('evaluates the guards at each event, inner states first', () => {
    for (const _ of ['found', 'known']) {
      expect([8, 4, 3].map((n) => taken(n, 'knock'))).toEqual([['loud'], ['heard'], ['around']]);
      expect([8, 4, 3].map((n) => taken(n, 'knock', { lit: true }))).toEqual([['loud'], ['lit'], ['lit']]);
      expect([taken(1, 'count'), taken(1, 'count', { open: false })]).toEqual([['inner'], ['outer']]);
      expect(taken(1, 'unheard')).toEqual([]);
    }
  });

  it("does not call XState unless a guard is one of XState's built-in guards", () => {
    const from = restoreSnapshot(definition, { lamp: 'dark', door: 'here' }, { open: false });
    const asked = vi.spyOn(machine, 'getTransitionData');
    const types = ['knock', 'count', 'light', 'push'];
    for (const type of types) decide(definition, from, nudge(type, 1));
    asked.mockClear();
    for (const type of types) decide(definition, from, nudge(type, 9));
    expect(asked.mock.calls.map(([, { type }]) => type)).toEqual(['push']);
    asked.mockRestore();
    expect([taken(1, 'push'), taken(1, 'push', { open: false })]).toEqual([[], ['shut']]);
  });

  it('fails like XState if a guard throws', () => {
    for (const _ of ['found', 'known']) {
      expect(taken(1, 'trip')).toMatchObject({ message: expect.stringContaining("guard 'stumbles'") });
    }
  });
});

describe('a transition that cannot be compiled', () => {
  const base = setup({ types: { context: {} as Record<string, unknown>, events: {} as Nudge } });
  const act = actionsFor<Record<string, unknown>, Nudge>();
  const nothing = act(() => ({ changes: null, outputs: [] }));
  const charts = {
    'a timer set under a name that another has': {
      on: {
        a: { actions: raise(go, { id: 'x', delay: 5 }) },
        b: { actions: raise(go, { id: 'x', delay: 6 }) },
      },
    },
    'a timer whose event is computed': {
      on: {
        a: {
          actions: raise(({ event }) => ({ ...go, type: `after ${(event as Nudge).n}` }) as never, {
            id: 'x',
            delay: 5,
          }),
        },
      },
    },
    'a timer that is cleared by a computed name': {
      on: { a: { actions: cancel(({ event }) => `timer ${(event as Nudge).n}`) } },
    },
    'a timer without a name': { on: { a: { actions: raise(go, { delay: 5 }) } } },
    'an event that XState raises': { on: { a: { actions: raise({ ...go, type: 'b' }) }, b: { actions: nothing } } },
    "an assignment of XState's": { on: { a: { actions: assign({ n: ({ event }) => (event as Nudge).n }) } } },
    'a wildcard': { on: { '*': { actions: nothing } } },
    'a transition without an event': { initial: 'one', states: { one: { always: 'two' }, two: {} } },
    'a history': { initial: 'one', states: { one: {}, past: { type: 'history' } } },
    'a listener for the end of a state': {
      initial: 'one',
      states: { one: { initial: 'two', onDone: {}, states: { two: { type: 'final' } } } },
    },
  };

  it.each(Object.entries(charts))('is computed by XState each time: %s', (_, chart) => {
    const machine = base.createMachine(chart as never) as unknown as AnyStateMachine;
    const definition = definitionOf(machine);
    const asked = vi.spyOn(machine, 'transition');
    const from = blankSnapshot(definition);
    const events = ['a', 'b', 'a', 'b'];
    for (const [n, type] of events.entries()) {
      const event: Nudge = { type, at: 0, n };
      const { snapshot: _, ...said } = decide(definition, from, event);
      const { snapshot: __, ...saidToo } = transitionByXState(definition, from, event);
      expect(said).toEqual(saidToo);
    }
    expect(asked).toHaveBeenCalledTimes(2 * events.length);
  });
});
