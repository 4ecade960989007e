import type DataLoader from 'dataloader';
import type { Refusal } from '../../domain/refusals.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import type { Caller, Operation } from '../../operations/operation.ts';
import type { Perform, Performed } from '../../operations/perform.ts';
import type { Feed } from './feed.ts';
import { Refusing } from './refusing.ts';

/** What the fields of one request work with. */
// The libraries want a record, which an interface is not.
export type Context = {
  caller: Caller;
  perform: Perform;
  /** What bars every change: a browser's request that may have been made up by another site. */
  barred: Refusal | null;
  /** The request's `Idempotency-Key`: each of its changes is carried out once for it. */
  key: string | null;
  /** Changes, and those of them that were answered from what was stored. */
  told: { changes: number; replayed: number };
  loaders: Map<string, DataLoader<string, unknown>>;
  /** For subscriptions; null on a wire that has none. */
  feed: Feed | null;
};

export const makeContext = (given: Pick<Context, 'caller' | 'perform'> & Partial<Context>): Context => ({
  barred: null,
  key: null,
  told: { changes: 0, replayed: 0 },
  loaders: new Map(),
  feed: null,
  ...given,
});

/** The body of a read; throws what it is refused with. */
export async function read(
  { perform, caller }: Pick<Context, 'perform' | 'caller'>,
  operation: Operation,
  input: JsonObject,
): Promise<Performed> {
  const outcome = await perform(operation, { input, caller, keyed: null });
  if (!outcome.ok) throw new Refusing(outcome.refusal, caller.requestId);
  return outcome.value;
}

/** `place` tells apart the changes that one request asks for. */
export function change(context: Context, operation: Operation, input: JsonObject, place: string) {
  const { perform, caller, key, barred, told } = context;
  told.changes += 1;
  const keyed =
    key === null ? null : { key, method: 'POST', path: `/graphql/${operation.name}/${place}`, body: input as Json };
  return perform(operation, { input, caller, keyed, ...(barred !== null && { barred }) }).then((outcome) => {
    if (outcome.ok && outcome.value.replayed) told.replayed += 1;
    return outcome;
  });
}
