import { type EventObject, enqueueActions, type MachineContext } from 'xstate';
import type { RefusalCode } from '../domain/refusals.ts';
import type { Output } from './outputs.ts';

/** What an event does to an actor, as a value. Without changes the context stays the very same object. */
export interface Decision<Context> {
  changes: Partial<Context> | null;
  outputs: Output[];
}

export const only = (...outputs: Output[]): { changes: null; outputs: Output[] } => ({ changes: null, outputs });

/** Understood and refused; nothing else changes. */
export const refusing = (code: RefusalCode, detail: string) => only({ type: 'refused', refusal: { code, detail } });

/** The function an action was made of, which the runtime may call without XState's bookkeeping where no state changes. */
const functions = new WeakMap<object, (context: never, event: never) => Decision<object>>();

export const functionOf = (action: object): ((context: never, event: never) => Decision<object>) | undefined =>
  functions.get(action);

/** Makes actions out of pure functions: their changes are assigned, then their outputs emitted in order. */
export const deciding =
  <Context extends MachineContext, Event extends EventObject>() =>
  <Taken extends Event>(decide: (context: Context, event: Taken) => Decision<Context>) => {
    const action = enqueueActions<Context, Event, undefined, Event, never, never, never, never, Output>(
      ({ context, event, enqueue }) => {
        const { changes, outputs } = decide(context, event as Taken);
        if (changes) enqueue.assign(changes as never);
        for (const output of outputs) enqueue.emit(output as never);
      },
    );
    functions.set(action, decide as never);
    return action;
  };

/** Makes guards out of pure predicates. The chart asks each only of the events it is written for. */
export const asking =
  <Context, Event extends EventObject>() =>
  <Asked extends Event, Params = undefined>(holds: (context: Context, event: Asked, params: Params) => boolean) =>
  ({ context, event }: { context: Context; event: Event }, params: Params): boolean =>
    holds(context, event as Asked, params);
