import { type EventObject, enqueueActions, type MachineContext, type ParameterizedObject } from 'xstate';
import type { RefusalCode } from '../domain/refusals.ts';
import type { Output } from './outputs.ts';

/** What an event does to an actor, as a value. Without changes the context stays the very same object. */
export interface Decision<Context> {
  changes: Partial<Context> | null;
  outputs: Output[];
  /** An event that the machine has for itself, taken next within the same transition. */
  raised?: EventObject;
}

export const emit = (...outputs: Output[]): { changes: null; outputs: Output[] } => ({ changes: null, outputs });

/** Understood and refused; nothing else changes. */
export const emitRefusal = (code: RefusalCode, detail: string) => emit({ type: 'refused', refusal: { code, detail } });

/** The function an action was made of, which the runtime may call without XState's bookkeeping where no state changes. */
const functions = new WeakMap<object, (context: never, event: never) => Decision<object>>();

export const decisionFunctionOf = (action: object): ((context: never, event: never) => Decision<object>) | undefined =>
  functions.get(action);

/** As much as an action needs of what XState hands to one that resolves itself. */
interface ActionScope {
  actionExecutor(action: { type: string; info: object; params: object; exec(): void }): void;
  defer(run: () => void): void;
  emit(output: Output): void;
  /** Where the runtime writes down what a step is made of. */
  decided?(decide: unknown, params: unknown): void;
}

/**
 * Makes actions out of pure functions: their changes are assigned, then their outputs emitted in order, then what they raise
 * is queued. XState's `enqueueActions` would do the same by building an action for each, and a snapshot for each assignment.
 */
export const actionsFor =
  <Context extends MachineContext, Event extends EventObject>() =>
  <Taken extends Event, Params extends ParameterizedObject['params'] | undefined = undefined>(
    decide: (context: Context, event: Taken, params: Params) => Decision<Context>,
  ) => {
    const action = enqueueActions<Context, Event, Params, Event, never, never, never, never, Output>(() => {});
    const resolve = (
      scope: ActionScope,
      snapshot: { context: Context },
      info: { context: Context; event: Taken },
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

/** Makes guards out of pure predicates. The chart asks each only of the events it is written for. */
export const guardsFor =
  <Context, Event extends EventObject>() =>
  <Asked extends Event, Params = undefined>(holds: (context: Context, event: Asked, params: Params) => boolean) =>
  ({ context, event }: { context: Context; event: Event }, params: Params): boolean =>
    holds(context, event as Asked, params);
