import { type EventObject, enqueueActions, type MachineContext, type ParameterizedObject } from 'xstate';
import type { RefusalCode } from '../domain/refusals.ts';
import type { Output } from './outputs.ts';

/** The effect of an event on an actor, as a value. Without changes the context object stays the same. */
export interface Decision<Context> {
  /** New parts of the context; an absent part is unchanged. */
  changes: Partial<Context> | null;
  outputs: Output[];
  /** An event that the machine raises for itself, handled next within the same transition. */
  raised?: EventObject;
}

/** Changes of the live part alone. */
export const changeLive = <Live>({ live }: { live: Live }, changes: Partial<NoInfer<Live>>): { live: Live } => ({
  live: { ...live, ...changes },
});

/** Changes of the fixed part alone. */
export const changeFixed = <Fixed>(
  { fixed }: { fixed: Fixed },
  changes: Partial<NoInfer<Fixed>>,
): { fixed: Fixed } => ({
  fixed: { ...fixed, ...changes },
});

export const changeBoth = <Fixed, Live>(
  { fixed, live }: { fixed: Fixed; live: Live },
  ofFixed: Partial<NoInfer<Fixed>>,
  ofLive: Partial<NoInfer<Live>>,
): { fixed: Fixed; live: Live } => ({ fixed: { ...fixed, ...ofFixed }, live: { ...live, ...ofLive } });

export const emit = (...outputs: Output[]): { changes: null; outputs: Output[] } => ({ changes: null, outputs });

/** Refuses the event without further changes. */
export const emitRefusal = (code: RefusalCode, detail: string) => emit({ type: 'refused', refusal: { code, detail } });

const functions = new WeakMap<object, (context: never, event: never) => Decision<object>>();
const predicates = new WeakMap<object, (context: never, event: never, params: never) => boolean>();

/** The decision function that an action was made of; undefined for XState's own actions. */
export const decisionFunctionOf = (action: object): ((context: never, event: never) => Decision<object>) | undefined =>
  functions.get(action);

/** The predicate that a guard was made of; undefined for XState's own guards (`and`, `or`, `not`, `stateIn`). */
export const predicateOf = (guard: object): ((context: never, event: never, params: never) => boolean) | undefined =>
  predicates.get(guard);

/**
 * Turns pure decision functions into XState actions: the changes are assigned, the outputs emitted in order, the event
 * raised. XState executes such an action as it stands; the compiled transition table calls the function.
 */
export const actionsFor =
  <Context extends MachineContext, Event extends EventObject>() =>
  <Handled extends Event, Params extends ParameterizedObject['params'] | undefined = undefined>(
    decide: (context: Context, event: Handled, params: Params) => Decision<Context>,
  ) => {
    const action = enqueueActions<Context, Event, Params, Event, never, never, never, never, Output>(
      ({ context, event, enqueue }, params) => {
        const { changes, outputs, raised } = decide(context, event as Handled, params);
        if (changes) enqueue.assign(changes);
        for (const output of outputs) enqueue.emit(output);
        if (raised) enqueue.raise(raised as never);
      },
    );
    functions.set(action, decide as never);
    return action;
  };

/** Turns pure predicates into XState guards. The chart must use each guard only for the event types of its predicate. */
export const guardsFor =
  <Context, Event extends EventObject>() =>
  <Guarded extends Event, Params = undefined>(holds: (context: Context, event: Guarded, params: Params) => boolean) => {
    const guard = ({ context, event }: { context: Context; event: Event }, params: Params): boolean =>
      holds(context, event as Guarded, params);
    predicates.set(guard, holds as never);
    return guard;
  };
