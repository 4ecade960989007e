import type { AppliedChange } from '../domain/change-request.ts';
import type { JsonObject } from '../domain/values.ts';

/** The confirmed change request, in a journal entry; the entry itself names who confirmed it. */
export const changeNote = ({ id, digest, requestedBy, weaker }: AppliedChange): JsonObject => ({
  ...{ id, digest, requested_by: requestedBy.id, weaker },
});
