import { type AnyStateMachine, setup, stateIn } from 'xstate';
import { actionsFor, changeLive, guardsFor } from '../../src/machines/decision.ts';
import type { MachineEvent } from '../../src/machines/definition.ts';
import { fc } from '../support/properties.ts';

// Random charts with all features that the service's charts may use.

interface Counted {
  fixed: { at: number };
  live: {
    sum: number;
    /** How many events an actor may still raise: some charts would never stop raising. */
    fuel: number;
    done: readonly string[];
  };
}
/** Event numbers from here on mark raised events, which do not refill the fuel. */
const INNER = 100;

export interface Nudge extends MachineEvent {
  n: number;
}

const act = actionsFor<Counted, Nudge>();
const when = guardsFor<Counted, Nudge>();
const outputOf = (label: string, { live: { sum } }: Counted) => ({ type: 'emitted', label, sum }) as never;
const counting = (context: Counted, { type, n }: Nudge, label: string) =>
  changeLive(context, {
    sum: (context.live.sum * 3 + n + label.length + type.length) % 1_009,
    done: [...context.live.done.slice(-3), `${label} for ${type}`],
  });

const base = setup({
  types: { context: {} as Counted, events: {} as Nudge },
  actions: {
    count: act((context, event, { label }: { label: string }) => ({
      changes: counting(context, event, label),
      outputs: [outputOf(label, context)],
    })),
    emit: act((context, _, { label }: { label: string }) => ({ changes: null, outputs: [outputOf(label, context)] })),
    tick: act((context, event) => ({
      changes: { fixed: { at: event.at }, ...counting(context, event, 'tick') },
      outputs: [],
    })),
    raise: act((context, { at, n }, { label }: { label: string }) => ({
      changes: changeLive(context, { fuel: context.live.fuel - 1 }),
      outputs: [],
      ...(context.live.fuel > 0 && { raised: { type: label, at, n: INNER + (n % 10) } as Nudge }),
    })),
    refuel: act((context, { n }) => ({
      changes: n < INNER ? changeLive(context, { fuel: n % 7 }) : null,
      outputs: [],
    })),
    stumble: act(({ live: { sum } }) => {
      if (sum % 11 === 5) throw new Error(`stumbled at ${sum}`);
      return { changes: null, outputs: [] };
    }),
  },
  guards: {
    isOdd: when(({ live: { sum } }) => sum % 2 === 1),
    isHigh: when((_, { n }, { over }: { over: number }) => n > over),
    isIn: stateIn('#s1'),
  },
  delays: { varying: ({ context, event }) => context.live.sum * 10 + (event.n ?? 0) },
});

const labels = fc.constantFrom('a', 'b', 'c');
const action = fc.oneof(
  labels.map((label) => ({ type: 'count', params: { label } })),
  labels.map((label) => ({ type: 'emit', params: { label } })),
  labels.map((label) => ({ type: 'raise', params: { label } })),
  fc.constantFrom('tick', 'refuel', 'stumble'),
);
const actions = fc.array(action, { maxLength: 2 });
const guard = fc.oneof(
  fc.constantFrom('isOdd', 'isIn'),
  fc.nat(9).map((over) => ({ type: 'isHigh', params: { over } })),
);
const transition = fc.record(
  { guard, to: fc.nat(30), reenter: fc.boolean(), actions },
  { requiredKeys: ['actions', 'reenter'] },
);
const transitions = fc.array(transition, { minLength: 1, maxLength: 3 });

export interface Drawn {
  kind: 'atomic' | 'compound' | 'parallel' | 'final';
  entry: unknown[];
  exit: unknown[];
  tags: string[];
  on: Record<string, Way[]>;
  after: Record<string, Way[]>;
  states: Drawn[];
}
type Way = typeof transition extends fc.Arbitrary<infer T> ? T : never;

const own = {
  entry: actions,
  exit: actions,
  tags: fc.subarray(['x', 'y']),
  on: fc.dictionary(labels, transitions, { maxKeys: 3 }),
  after: fc.dictionary(fc.constantFrom('varying', '250', '9000'), transitions, { maxKeys: 2 }),
};
const { drawn } = fc.letrec<{ drawn: Drawn; inner: Drawn; leaf: Drawn }>((tie) => ({
  leaf: fc.record({ ...own, kind: fc.constantFrom('atomic', 'atomic', 'final'), states: fc.constant([]) }),
  inner: fc.oneof({ depthSize: 'small', withCrossShrink: true }, tie('leaf'), tie('drawn')),
  drawn: fc.record({
    ...own,
    kind: fc.constantFrom('compound', 'parallel'),
    states: fc.array(tie('inner'), { minLength: 2, maxLength: 3 }),
  }),
}));

const sizeOf = ({ states }: Drawn): number => states.reduce((sum, state) => sum + sizeOf(state), 1);

/** The time that a table takes to compile grows with the product of the regions: a few larger charts would take seconds. */
const MAX_STATES = 25;

export const charts: fc.Arbitrary<Drawn> = drawn.filter((chart) => sizeOf(chart) <= MAX_STATES);

/** The machine for a random chart. Its states are named `s0`, `s1`, ... in document order. */
export function built(root: Drawn): AnyStateMachine {
  const size = sizeOf(root);
  let count = 0;
  const node = (state: Drawn, parent: Drawn['kind']): { id: string; config: object } => {
    const id = `s${count++}`;
    const ways = (all: Record<string, Way[]>) =>
      Object.fromEntries(
        Object.entries(all).map(([event, some]) => [
          event,
          some.map(({ to, ...way }) => (to === undefined ? way : { ...way, target: `#s${to % size}` })),
        ]),
      );
    const below = state.states.map((one) => node(one, state.kind));
    // A region cannot be a final state, and a final state has no transitions.
    const type = state.kind === 'final' && parent !== 'compound' ? 'atomic' : state.kind;
    const { entry, exit, tags } = state;
    const config = {
      ...{ id, entry, exit, tags },
      ...(type === 'parallel' || type === 'final' ? { type } : {}),
      ...(type === 'final' ? {} : { on: ways(state.on), after: ways(state.after) }),
      ...(type === 'compound' ? { initial: below[0]?.id } : {}),
      ...(below.length > 0 ? { states: Object.fromEntries(below.map((one) => [one.id, one.config])) } : {}),
    };
    return { id, config };
  };
  const { config } = node(root, 'parallel');
  return base.createMachine({
    ...config,
    context: { fixed: { at: 0 }, live: { sum: 1, fuel: 3, done: [] } },
  } as never) as unknown as AnyStateMachine;
}
