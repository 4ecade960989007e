import type { AppliedChange } from '../domain/change-request.ts';
import type { JsonObject } from '../domain/values.ts';

/** The confirmed change request of an event, for its journal entry; the entry itself names who confirmed it. */
export function changeIn({ change }: { change?: AppliedChange }): { change?: JsonObject } {
  if (change === undefined) return {};
  const { id, digest, requestedBy, weaker } = change;
  return { change: { id, digest, requested_by: requestedBy.id, weaker } };
}
