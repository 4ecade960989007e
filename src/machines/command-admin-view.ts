import type { EpochMs, Json, JsonObject, Principal } from '../domain/values.ts';
import type { CommandContext, PlanOrigin } from './command-types.ts';
import { isoTime } from './stored-schemas.ts';

/** A command's context for administrators, without the token's hash and the session's identifier. */
export function toAdminView(context: CommandContext): JsonObject {
  const { confirmation, delivery, answer, verification } = context;
  return {
    id: context.id,
    tenant_id: context.tenantId,
    device_id: context.deviceId,
    action: context.action,
    params: context.params,
    message_id: context.messageId,
    request_id: context.origin.requestId,
    plan: context.origin.plan && planOf(context.origin.plan),
    requested_by: principal(context.requestedBy),
    requested_at: isoTime(context.requestedAt),
    status: context.status,
    safety_class: context.safetyClass,
    manifest_version: context.manifestVersion,
    ttl_s: context.limits.ttlMs / 1_000,
    timeout_s: context.limits.timeoutMs / 1_000,
    refusal: context.refusal && { code: context.refusal.code, detail: context.refusal.detail },
    confirmation: confirmation && {
      expires_at: isoTime(confirmation.expiresAt),
      reason: confirmation.reason,
      preview: { ...confirmation.preview },
      asked: confirmation.asked,
    },
    confirmed_by: context.confirmedBy && principal(context.confirmedBy),
    delivery: delivery && {
      dispatched_at: isoTime(delivery.dispatchedAt),
      expires_at: isoTime(delivery.expiresAt),
      first_written_at: moment(delivery.firstWrittenAt),
      writes: delivery.writes,
    },
    answer: {
      progress: answer.progress,
      result: answer.result,
      error: answer.error,
      timed_out_at: moment(answer.timedOutAt),
      late: answer.late,
      stray_words: answer.strayWords,
    },
    verification: {
      status: verification.status,
      expected: verification.expected,
      within_s: verification.withinMs / 1_000,
      observed: verification.observed,
      checked_at: moment(verification.checkedAt),
    },
  };
}

const planOf = ({ id, stepId, compensation }: PlanOrigin): JsonObject => ({
  ...{ id, step_id: stepId },
  compensation: compensation && { ...compensation },
});

const moment = (at: EpochMs | null): Json => (at === null ? null : isoTime(at));

/** Includes the key's prefix, which is not secret. */
const principal = ({ kind, id, key, via }: Principal): JsonObject => ({
  ...{ kind, id },
  ...(via !== undefined && { via }),
  ...(key !== undefined && { key }),
});
