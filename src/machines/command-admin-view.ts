import { iso } from '../domain/iso-time.ts';
import type { EpochMs, Json, JsonObject, Principal } from '../domain/values.ts';
import type { CommandContext, PlanOrigin } from './command-types.ts';

/** A command's context for administrators, without the token's hash and the session's identifier. */
export function toAdminView({ fixed, live }: CommandContext): JsonObject {
  const { confirmation } = fixed;
  const { delivery, answer, verification } = live;
  return {
    id: fixed.id,
    tenant_id: fixed.tenantId,
    device_id: fixed.deviceId,
    action: fixed.action,
    params: fixed.params,
    message_id: fixed.messageId,
    request_id: fixed.origin.requestId,
    plan: fixed.origin.plan && planOf(fixed.origin.plan),
    requested_by: principal(fixed.requestedBy),
    requested_at: iso(fixed.requestedAt),
    status: live.status,
    safety_class: fixed.safetyClass,
    manifest_version: fixed.manifestVersion,
    ttl_s: fixed.limits.ttlMs / 1_000,
    timeout_s: fixed.limits.timeoutMs / 1_000,
    refusal: fixed.refusal && { code: fixed.refusal.code, detail: fixed.refusal.detail },
    confirmation: confirmation && {
      expires_at: iso(confirmation.expiresAt),
      reason: confirmation.reason,
      preview: { ...confirmation.preview },
      asked: confirmation.asked,
    },
    confirmed_by: fixed.confirmedBy && principal(fixed.confirmedBy),
    delivery: delivery && {
      dispatched_at: iso(delivery.dispatchedAt),
      expires_at: iso(delivery.expiresAt),
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

const moment = (at: EpochMs | null): Json => (at === null ? null : iso(at));

/** Includes the key's prefix, which is not secret. */
const principal = ({ kind, id, key, via }: Principal): JsonObject => ({
  ...{ kind, id },
  ...(via !== undefined && { via }),
  ...(key !== undefined && { key }),
});
