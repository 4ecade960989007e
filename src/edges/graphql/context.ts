import type DataLoader from 'dataloader';
import type { Refusal } from '../../domain/refusals.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import type { Caller, Operation } from '../../operations/operation.ts';
import type { Perform, Performed } from '../../operations/perform.ts';
import type { LiveEventSource } from './live-event-source.ts';
import { RefusalError } from './refusal-error.ts';

/** What the fields of one request work with. */
// The libraries want a record, which an interface is not.
export type Context = {
  caller: Caller;
  perform: Perform;
  /** What bars every change: a browser's request that may have been made up by another site. */
  changeRefusal: Refusal | null;
  /** The request's `Idempotency-Key`: each of its changes is carried out once for it. */
  idempotencyKey: string | null;
  /** Changes, and those of them that were answered from what was stored. */
  changeCounts: { changes: number; replayed: number };
  loaders: Map<string, DataLoader<string, unknown>>;
  /** For subscriptions; null on a wire that has none. */
  eventSource: LiveEventSource | null;
};

export const makeContext = (given: Pick<Context, 'caller' | 'perform'> & Partial<Context>): Context => ({
  changeRefusal: null,
  idempotencyKey: null,
  changeCounts: { changes: 0, replayed: 0 },
  loaders: new Map(),
  eventSource: null,
  ...given,
});

/** The body of a read; throws what it is refused with. */
export async function performRead(
  { perform, caller }: Pick<Context, 'perform' | 'caller'>,
  operation: Operation,
  input: JsonObject,
): Promise<Performed> {
  const outcome = await perform(operation, { input, caller, keyed: null });
  if (!outcome.ok) throw new RefusalError(outcome.refusal, caller.requestId);
  return outcome.value;
}

/** `place` tells apart the changes that one request asks for. */
export function performChange(context: Context, operation: Operation, input: JsonObject, place: string) {
  const { perform, caller, idempotencyKey, changeRefusal, changeCounts } = context;
  changeCounts.changes += 1;
  const keyed =
    idempotencyKey === null
      ? null
      : { key: idempotencyKey, method: 'POST', path: `/graphql/${operation.name}/${place}`, body: input as Json };
  return perform(operation, { input, caller, keyed, ...(changeRefusal !== null && { barred: changeRefusal }) }).then(
    (outcome) => {
      if (outcome.ok && outcome.value.replayed) changeCounts.replayed += 1;
      return outcome;
    },
  );
}
