import { type EventObject, enqueueActions, type MachineContext, type ParameterizedObject } from 'xstate';
import type { RefusalCode } from '../domain/refusals.ts';
import type { Output } from './outputs.ts';

/** The effect of an event on an actor, as a value. Without changes the context object stays the same. */
export interface Decision<Context> {
  changes: Partial<Context> | null;
  outputs: Output[];
  /** An event that the machine raises for itself, handled next within the same transition. */
  raised?: EventObject;
}

export const emit = (...outputs: Output[]): { changes: null; outputs: Output[] } => ({ changes: null, outputs });

/** Refuses the event without further changes. */
export const emitRefusal = (code: RefusalCode, detail: string) => emit({ type: 'refused', refusal: { code, detail } });

/** The decision function of each action. The runtime calls it directly, without XState, where no state changes. */
const functions = new WeakMap<object, (context: never, event: never) => Decision<object>>();

export const decisionFunctionOf = (action: object): ((context: never, event: never) => Decision<object>) | undefined =>
  functions.get(action);

/** The part of XState's actor scope that a custom `resolve` needs. */
interface ActionScope {
  actionExecutor(action: { type: string; info: object; params: object; exec(): void }): void;
  defer(run: () => void): void;
  emit(output: Output): void;
  /** Records the decision functions of a transition, for the runtime's transition table. */
  decided?(decide: unknown, params: unknown): void;
}

/**
 * Turns pure decision functions into XState actions: their changes are assigned, their outputs emitted in order, then
 * the raised event is queued. XState's `enqueueActions` has the same effect, but builds an action for each output and a
 * snapshot for each assignment.
 */
export const actionsFor =
  <Context extends MachineContext, Event extends EventObject>() =>
  <Handled extends Event, Params extends ParameterizedObject['params'] | undefined = undefined>(
    decide: (context: Context, event: Handled, params: Params) => Decision<Context>,
  ) => {
    const action = enqueueActions<Context, Event, Params, Event, never, never, never, never, Output>(() => {});
    const resolve = (
      scope: ActionScope,
      snapshot: { context: Context },
      info: { context: Context; event: Handled },
      params: Params,
      _: object,
      { internalQueue }: { internalQueue: EventObject[] },
    ) => {
      scope.decided?.(decide, params);
      const { changes, outputs, raised } = decide(info.context, info.event, params);
      for (const event of outputs) {
        scope.actionExecutor({
          type: 'xstate.emit',
          info,
          params: { event },
          exec: () => scope.defer(() => scope.emit(event)),
        });
      }
      if (raised) internalQueue.push(raised);
      return [changes ? { ...snapshot, context: { ...info.context, ...changes } } : snapshot, undefined, undefined];
    };
    functions.set(action, decide as never);
    return Object.assign(action, { resolve });
  };

/**
 * Turns pure predicates into XState guards. The chart must use each guard only for the event types of its predicate.
 */
export const guardsFor =
  <Context, Event extends EventObject>() =>
  <Guarded extends Event, Params = undefined>(holds: (context: Context, event: Guarded, params: Params) => boolean) =>
  ({ context, event }: { context: Context; event: Event }, params: Params): boolean =>
    holds(context, event as Guarded, params);
