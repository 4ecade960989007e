import { deepStrictEqual } from 'node:assert';
import { describe, expect, it, vi } from 'vitest';
import {
  type AnyMachineSnapshot,
  type AnyStateMachine,
  and,
  assign,
  cancel,
  initialTransition,
  not,
  raise,
  setup,
  stateIn,
  transition,
} from 'xstate';
import {
  CompiledMachine,
  compiledMachine,
  type MachineSnapshot,
  NotCompilable,
  type TransitionResult,
} from '../../src/machines/compiled.ts';
import { actionsFor, guardsFor } from '../../src/machines/decision.ts';
import { deviceDefinition } from '../../src/machines/device-record.ts';
import { allDefinitions, currentDefinition } from '../../src/machines/versions.ts';
import { fc, seed } from '../support/properties.ts';
import { slow } from '../support/slow.ts';
import { effectsOf } from './machine-driver.ts';
import { built, charts, type Nudge } from './random-charts.ts';

const ACTORS = 3;
/** Each a test of its own, so that it is done long before the limit of a test. */
const PARTS = Array.from({ length: 8 }, (_, n) => n + 1);

/** One actor twice: by XState and by the table. */
interface Twin {
  interpreted: AnyMachineSnapshot;
  compiled: MachineSnapshot;
}

const eventsOf = (machine: AnyStateMachine): string[] =>
  [...machine.events, 'unknown'].filter((event) => !event.startsWith('xstate.done'));

/** What XState makes of an event, in the form of the table's result. */
function byXState(machine: AnyStateMachine, from: AnyMachineSnapshot, event: Nudge) {
  const [snapshot, actions] = transition(machine, from, event);
  if (snapshot.status === 'error') throw snapshot.error;
  const { outputs, timers } = effectsOf(actions);
  return { snapshot, outputs, timers, understood: snapshot !== from || outputs.length > 0 || timers.length > 0 };
}

/** The result, or what was thrown. */
function tried<T>(run: () => T): { result: T | null; error: unknown } {
  try {
    return { result: run(), error: null };
  } catch (error) {
    return { result: null, error };
  }
}

const plain = <T>({ value, context, status }: { value: T; context: object; status: string }) =>
  JSON.parse(JSON.stringify({ value, context, status }));

function applies(machine: AnyStateMachine, twin: Twin, event: Nudge): void {
  const interpreted = tried(() => byXState(machine, twin.interpreted, event));
  const compiled = tried(() => compiledMachine(machine).transition(twin.compiled, event));
  deepStrictEqual(compiled.error, interpreted.error);
  if (!interpreted.result || !compiled.result) return;
  const { snapshot, ...effects } = interpreted.result;
  const { snapshot: reached, ...sameEffects } = compiled.result;
  deepStrictEqual(
    [reached === twin.compiled, plain(reached), sameEffects],
    [snapshot === twin.interpreted, plain(snapshot), effects],
  );
  twin.interpreted = snapshot;
  twin.compiled = reached;
}

describe('a transition of the table', () => {
  const nudges = fc.array(
    fc.record({ actor: fc.nat(ACTORS - 1), event: fc.nat(40), n: fc.nat(12), restored: fc.nat(15) }),
    { maxLength: 200, size: 'max' },
  );

  it.each(PARTS)('equals that of XState for random charts (part %i)', slow, (part) => {
    fc.assert(
      fc.property(charts, nudges, (chart, walk) => {
        const machine = built(chart);
        const [interpreted] = initialTransition(machine);
        if (interpreted.status === 'error') {
          expect(() => compiledMachine(machine)).toThrow(interpreted.error as Error);
          return;
        }
        const table = compiledMachine(machine);
        const twins = Array.from({ length: ACTORS }, (): Twin => ({ interpreted, compiled: table.initial }));
        const events = eventsOf(machine);
        for (const { actor, event, n, restored } of walk) {
          const twin = twins[actor] as Twin;
          // XState's actors take no event once their machine is done.
          if (twin.interpreted.status !== 'active') continue;
          applies(machine, twin, { type: events[event % events.length] as string, at: n, n });
          if (restored !== 0) continue;
          const { value, context } = JSON.parse(JSON.stringify(twin.interpreted));
          twin.interpreted = machine.resolveState({ value, context });
          twin.compiled = table.restore(value, structuredClone(context));
        }
      }),
      { numRuns: 10, seed: seed + part },
    );
  });

  it('processes raised events in order', () => {
    const { machine, seen } = raisingTwice();
    const table = compiledMachine(machine);
    const { snapshot } = table.transition(table.initial, go);
    expect((snapshot.context as Ready).live.ready).toBe(true);
    expect(seen).toEqual(['first', 'second', 'third']);
  });

  it('does not call XState', () => {
    const { machine, seen } = raisingTwice();
    const table = compiledMachine(machine);
    const spies = [vi.spyOn(machine, 'transition'), vi.spyOn(machine, 'getTransitionData')];
    const [one, other] = [
      table.restore({ left: {}, right: {} }, { fixed: {}, live: { ready: false } }),
      table.initial,
    ].map((from) => table.transition(from, go));
    for (const spy of spies) expect(spy).not.toHaveBeenCalled();
    expect(seen).toHaveLength(6);
    expect(one?.snapshot.configuration).toBe(other?.snapshot.configuration);
  });
});

interface Ready {
  fixed: object;
  live: { ready: boolean };
}
const go: Nudge = { type: 'go', at: 0, n: 0 };

/** Two regions raise an event each; what follows from the first must find what the second did. */
function raisingTwice() {
  const seen: string[] = [];
  const action = actionsFor<Ready, Nudge>();
  const raising = (type: string) =>
    action((_, event) => {
      if (event.type !== 'go') seen.push(event.type);
      return { changes: null, outputs: [], raised: { ...go, type } };
    });
  const machine = setup({
    types: { context: {} as Ready, events: {} as Nudge },
    actions: {
      raiseFirst: raising('first'),
      raiseSecond: raising('second'),
      raiseThird: raising('third'),
      prepare: action((_, { type }) => {
        seen.push(type);
        return { changes: { live: { ready: true } }, outputs: [] };
      }),
      use: action(({ live: { ready } }, { type }) => {
        if (!ready) throw new Error('used before it was ready');
        seen.push(type);
        return { changes: null, outputs: [] };
      }),
    },
  }).createMachine({
    type: 'parallel',
    context: { fixed: {}, live: { ready: false } },
    states: {
      left: { on: { go: { actions: 'raiseFirst' }, first: { actions: 'raiseThird' }, third: { actions: 'use' } } },
      right: { on: { go: { actions: 'raiseSecond' }, second: { actions: 'prepare' } } },
    },
  });
  return { machine: machine as unknown as AnyStateMachine, seen };
}

describe('a restored state', () => {
  const { machine } = deviceDefinition;
  const empty = { fixed: {}, live: {} };
  const stored = { link: 'offline', administration: { active: 'one_key' } };
  const table = compiledMachine(machine);

  it('has its regions in the order of the chart, for any stored order', () => {
    const { value } = table.restore(stored, empty);
    expect(Object.keys(value as object)).toEqual(Object.keys(machine.states));
    expect(value).toEqual(stored);
    expect(value).toBe(table.restore({ administration: { active: 'one_key' }, link: 'offline' }, empty).value);
  });

  it('must be a state of the chart', () => {
    for (const value of [{ ...stored, unknown: 'on' }, { ...stored, link: 'unknown' }, 'active']) {
      expect(() => table.restore(value, empty)).toThrow(/the chart has no state/);
    }
  });
});

describe('the chosen transitions', () => {
  type Switch = { fixed: object; live: { enabled: boolean } };
  const action = actionsFor<Switch, Nudge>();
  const guard = guardsFor<Switch, Nudge>();
  const emit = (output: string) => ({ type: 'emit', params: { output } }) as const;
  const machine = setup({
    types: { context: {} as Switch, events: {} as Nudge },
    actions: {
      emit: action((_, __, { output }: { output: string }) => ({
        changes: null,
        outputs: [{ type: output } as never],
      })),
    },
    guards: {
      isEnabled: guard(({ live: { enabled } }) => enabled),
      isAbove: guard((_, { n }, { limit }: { limit: number }) => n > limit),
      isOn: stateIn({ power: 'on' }),
      isDisabled: not('isEnabled'),
      isDisabledAndOn: and(['isDisabled', 'isOn']),
      fails: guard(() => {
        throw new Error('a guard failed');
      }),
    },
  }).createMachine({
    type: 'parallel',
    context: { fixed: {}, live: { enabled: true } },
    on: { count: { actions: emit('outer') } },
    states: {
      power: { initial: 'off', states: { off: { on: { toggle: 'on' } }, on: { on: { toggle: 'off' } } } },
      worker: {
        initial: 'ready',
        on: { request: { actions: emit('region') } },
        states: {
          ready: {
            on: {
              request: [
                { guard: { type: 'isAbove', params: { limit: 7 } }, actions: emit('above 7') },
                { guard: 'isOn', actions: emit('on') },
                { guard: { type: 'isAbove', params: { limit: 3 } }, actions: emit('above 3') },
              ],
              count: { guard: 'isEnabled', actions: emit('inner') },
              check: [
                { guard: 'isDisabledAndOn', actions: emit('disabled and on') },
                { guard: 'isDisabled', actions: emit('disabled') },
              ],
              fail: { guard: 'fails', actions: emit('never') },
            },
          },
        },
      },
    },
  }) as unknown as AnyStateMachine;
  const table = compiledMachine(machine);
  const typesOf = ({ outputs }: Pick<TransitionResult, 'outputs'>) => outputs.map(({ type }) => type as string);
  const emitted = (n: number, type: string, { on = false, enabled = true } = {}) => {
    const value = { power: on ? 'on' : 'off', worker: 'ready' };
    const event = { type, at: 0, n };
    const context = { fixed: {}, live: { enabled } };
    const compiled = typesOf(table.transition(table.restore(value, context), event));
    expect(compiled).toEqual(typesOf(byXState(machine, machine.resolveState({ value, context }), event)));
    return compiled;
  };

  it('depend on guards, from inner to outer states', () => {
    expect([8, 4, 3].map((n) => emitted(n, 'request'))).toEqual([['above 7'], ['above 3'], ['region']]);
    expect([8, 4, 3].map((n) => emitted(n, 'request', { on: true }))).toEqual([['above 7'], ['on'], ['on']]);
    expect([emitted(1, 'count'), emitted(1, 'count', { enabled: false })]).toEqual([['inner'], ['outer']]);
    expect(emitted(1, 'unknown')).toEqual([]);
  });

  it("depend on guards inside of XState's own", () => {
    expect([emitted(1, 'check'), emitted(1, 'check', { enabled: false })]).toEqual([[], ['disabled']]);
    expect(emitted(1, 'check', { enabled: false, on: true })).toEqual(['disabled and on']);
  });

  it('fail with the error that a guard throws', () => {
    expect(() => table.transition(table.initial, { type: 'fail', at: 0 })).toThrow('a guard failed');
  });

  it('are printed as one line for each result of the guards', () => {
    const lines = String(table).split('\n');
    expect(lines).toContain('{"power":"off","worker":"ready"} toggle:  -> {"power":"on","worker":"ready"}');
    expect(lines.filter((line) => line.startsWith('{"power":"off","worker":"ready"} request'))).toEqual([
      '{"power":"off","worker":"ready"} request [isAbove({"limit":7})]: emit({"output":"above 7"})',
      '{"power":"off","worker":"ready"} request [not isAbove({"limit":7}), isAbove({"limit":3})]: emit({"output":"above 3"})',
      '{"power":"off","worker":"ready"} request [not isAbove({"limit":7}), not isAbove({"limit":3})]: emit({"output":"region"})',
    ]);
  });
});

describe('a construct that a table cannot express', () => {
  type Empty = { fixed: object; live: object };
  const base = setup({
    types: { context: {} as Empty, events: {} as Nudge },
    actions: {
      by: actionsFor<Empty, Nudge>()((_, __, ___: { n: unknown }) => ({
        changes: null,
        outputs: [],
      })),
    },
  });
  const cases = {
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
    'a delay that is computed in the chart': {
      on: { a: { actions: raise(go, { id: 'x', delay: ({ event }) => (event as Nudge).n }) } },
    },
    'parameters that are computed': {
      on: { a: { actions: { type: 'by', params: ({ event }: { event: Nudge }) => ({ n: event.n }) } } },
    },
    'a guard in the chart': { on: { a: { guard: ({ event }: { event: Nudge }) => event.n > 3, actions: 'by' } } },
    "an assignment of XState's": { on: { a: { actions: assign({ n: ({ event }) => (event as Nudge).n }) } } },
    "an assignment of XState's, of a constant": { on: { a: { actions: assign({ n: 5 }) } } },
    "an assignment of XState's, on entry": {
      initial: 'one',
      states: { one: { on: { a: 'two' } }, two: { entry: assign({ n: 5 }) } },
    },
    'a guard in the chart that looks for a member': {
      on: { a: { guard: ({ context }: { context: object }) => 'n' in context, actions: 'by' } },
    },
    'a function in the chart': { on: { a: { actions: () => {} } } },
    'a wildcard': { on: { '*': { actions: 'by' } } },
    'a transition without an event': { initial: 'one', states: { one: { always: 'two' }, two: {} } },
    'a history state': { initial: 'one', states: { one: {}, past: { type: 'history' } } },
    'a transition at the end of a state': {
      initial: 'one',
      states: { one: { initial: 'two', onDone: {}, states: { two: { type: 'final' } } } },
    },
  };

  it.each(Object.entries(cases))('is refused when the machine is compiled: %s', (_, chart) => {
    const machine = base.createMachine({
      context: { fixed: {}, live: {} },
      ...chart,
    } as never) as unknown as AnyStateMachine;
    expect(() => String(new CompiledMachine(machine))).toThrow(NotCompilable);
  });
});

it.each(allDefinitions().map(({ kind, version, machine }) => [kind, version, machine] as const))(
  'the machine of a %s, version %i, compiles as a whole',
  (_kind, _version, machine) => {
    expect(String(compiledMachine(machine))).not.toBe('');
  },
);

it('does not depend on the order in which rows are needed', slow, () => {
  const { machine } = currentDefinition('plan');
  const inOrder = String(new CompiledMachine(machine));
  const walked = new CompiledMachine(machine);
  fc.assert(
    fc.property(fc.array(fc.nat(40), { maxLength: 30 }), (walk) => {
      const events = eventsOf(machine);
      let from = walked.initial;
      for (const event of walk) {
        const next = { type: events[event % events.length] as string, at: 0, n: 0 };
        from = tried(() => walked.transition(from, next)).result?.snapshot ?? from;
      }
    }),
    { numRuns: 50, seed },
  );
  expect(String(walked)).toBe(inOrder);
});

it.each([
  ['a state that does not exist', 'nowhere'],
  ['a part of the regions', { left: 'one' }],
])('restores no snapshot of %s', (_, value) => {
  const { machine } = raisingTwice();
  expect(() => new CompiledMachine(machine).restore(value, { fixed: {}, live: {} })).toThrow(RangeError);
});
