import { z } from 'zod';
import { type ChangeRequest, changeStatusOf } from '../../domain/change-request.ts';
import { changeStatusSchema } from '../../domain/enum-schemas.ts';
import { iso } from '../../domain/iso-time.ts';
import { jsonObject } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { EpochMs } from '../../domain/values.ts';
import { isoTime } from '../inputs.ts';
import { requestedWith, requestedWithOf } from '../requested-with.ts';
import { changeEffect, changeReason } from './confirmed-change.ts';

const entryFields = {
  id: uuid,
  operation: z.string().meta({ description: 'Name of the operation that was requested' }),
  subject: z.string().meta({ description: 'Subject of the change, such as `device:<id>`' }),
  status: changeStatusSchema,
  reason: z.string().meta({ description: 'Why a confirmation is required' }),
  weaker: z.array(z.string()).meta({
    description: 'One sentence for each rule that gets weaker, or for each effect of a critical change',
  }),
  digest: z.string().meta({ description: 'SHA-256 of the change, as in the journal of its subject' }),
  requested_by: z.string().meta({ description: 'The id of the requesting user' }),
  requested_with: requestedWith,
  requested_at: isoTime,
  expires_at: isoTime,
  decided_by: z.string().nullable().meta({ description: 'The id of the user who confirmed or refused it' }),
  decided_at: isoTime.nullable(),
  refusal_reason: z.string().nullable().meta({ description: 'Why it was refused, or what replaced it' }),
};
export const changeRequestEntry = z.object(entryFields).meta({ id: 'ChangeRequest' });
export const changeRequestRecord = z
  .object({
    ...entryFields,
    input: jsonObject.meta({ description: 'The input of the operation' }),
    preview: changeEffect,
  })
  .meta({ id: 'ChangeRequestDetails' });

/** The names of API keys, by prefix. */
type KeyNames = ReadonlyMap<string, string>;

export function changeRequestEntryOf(
  request: ChangeRequest,
  now: EpochMs,
  names: KeyNames,
): z.infer<typeof changeRequestEntry> {
  const { id, operation, subject, preview, digest, requestedBy, createdAt, expiresAt, decidedBy, decidedAt } = request;
  return {
    ...{ id, operation, subject, status: changeStatusOf(request, now), reason: changeReason(request) },
    ...{ weaker: preview.weaker, digest, requested_by: requestedBy.id, requested_at: iso(createdAt) },
    requested_with: requestedWithOf(requestedBy, names),
    ...{ expires_at: iso(expiresAt), decided_by: decidedBy?.id ?? null },
    ...{ decided_at: decidedAt === null ? null : iso(decidedAt), refusal_reason: request.reason },
  };
}

export const changeRequestRecordOf = (
  request: ChangeRequest,
  now: EpochMs,
  names: KeyNames,
): z.infer<typeof changeRequestRecord> => ({
  ...changeRequestEntryOf(request, now, names),
  input: request.input,
  preview: request.preview as z.infer<typeof changeEffect>,
});
