import type DataLoader from 'dataloader';
import type { Refusal } from '../../domain/refusals.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import type { Caller, ChargeCost, Operation } from '../../operations/operation.ts';
import type { Perform, Performed } from '../../operations/perform.ts';
import type { LiveReach } from '../shared/live/live-reach.ts';
import type { LiveEventSource } from './live-event-source.ts';
import { RefusalError } from './refusal-error.ts';

/** The GraphQL context of one request. */
// A type, not an interface: the libraries require a record.
export type GraphqlContext = {
  caller: Caller;
  perform: Perform;
  /** Charges what the fields of the request cost together beyond one request. */
  charge: ChargeCost;
  /** Refuses every mutation of the request: a browser's request that failed the CSRF check. */
  changeRefusal: Refusal | null;
  /** The request's `Idempotency-Key`: each of its mutations runs once per key. */
  idempotencyKey: string | null;
  /** Mutations of the request, and how many of them were answered with a stored response. */
  changeCounts: { changes: number; replayed: number };
  loaders: Map<string, DataLoader<string, unknown>>;
  /** For subscriptions; null over HTTP, which has none. */
  eventSource: LiveEventSource | null;
  /** Opens what a subscription of the caller reaches; null for a credential that is not restricted. */
  openReach(onLost: () => void): LiveReach | null;
};

export const makeGraphqlContext = (
  given: Pick<GraphqlContext, 'caller' | 'perform' | 'charge'> & Partial<GraphqlContext>,
): GraphqlContext => ({
  changeRefusal: null,
  idempotencyKey: null,
  changeCounts: { changes: 0, replayed: 0 },
  loaders: new Map(),
  eventSource: null,
  openReach: () => null,
  ...given,
});

/** Performs a read; throws a `RefusalError` if it is refused. */
export async function performRead(
  { perform, caller, charge }: Pick<GraphqlContext, 'perform' | 'caller' | 'charge'>,
  operation: Operation,
  input: JsonObject,
): Promise<Performed> {
  const outcome = await perform(operation, { input, caller, keyed: null, charge });
  if (!outcome.ok) throw new RefusalError(outcome.refusal, caller.requestId);
  return outcome.value;
}

/** `place`, the mutation's response key, distinguishes the mutations of one request. */
export function performChange(context: GraphqlContext, operation: Operation, input: JsonObject, place: string) {
  const { perform, caller, idempotencyKey, changeRefusal, changeCounts } = context;
  changeCounts.changes += 1;
  const keyed =
    idempotencyKey === null
      ? null
      : { key: idempotencyKey, method: 'POST', path: `/graphql/${operation.name}/${place}`, body: input as Json };
  return perform(operation, {
    input,
    caller,
    keyed,
    ...(changeRefusal !== null && { edgeRefusal: changeRefusal }),
  }).then((outcome) => {
    if (outcome.ok && outcome.value.replayed) changeCounts.replayed += 1;
    return outcome;
  });
}
