import { iso } from '../domain/iso-time.ts';
import type { Preview } from '../domain/twin.ts';
import type { EpochMs, Json, JsonObject, Principal } from '../domain/values.ts';
import type { CommandContext, PlanOrigin } from './command-types.ts';
import { assertEmpty } from './definition.ts';

/** A command's context for administrators, without the token's hash and the session's identifier. */
export function toAdminView({ fixed, live }: CommandContext): JsonObject {
  const { id, tenantId, deviceId, action, params, messageId, origin, requestedBy, requestedAt, ...moreFixed } = fixed;
  const { safetyClass, manifestVersion, limits, refusal, confirmation, confirmedBy, ...otherFixed } = moreFixed;
  const { status, delivery, answer, verification, sealedParams, ...otherLive } = live;
  assertEmpty(otherFixed, otherLive);
  return {
    id,
    tenant_id: tenantId,
    device_id: deviceId,
    action,
    params,
    ...(sealedParams !== undefined && { params_sealed: sealedParams !== null }),
    message_id: messageId,
    request_id: origin.requestId,
    plan: origin.plan && planOf(origin.plan),
    requested_by: principal(requestedBy),
    requested_at: iso(requestedAt),
    status,
    safety_class: safetyClass,
    manifest_version: manifestVersion,
    ttl_s: limits.ttlMs / 1_000,
    timeout_s: limits.timeoutMs / 1_000,
    refusal: refusal && { code: refusal.code, detail: refusal.detail },
    confirmation: confirmation && {
      expires_at: iso(confirmation.expiresAt),
      reason: confirmation.reason,
      preview: previewView(confirmation.preview),
      asked: confirmation.asked,
    },
    confirmed_by: confirmedBy && principal(confirmedBy),
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
      late_acks: answer.strayWords,
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

const previewView = ({ firmware, device, ...preview }: Preview): JsonObject => ({
  ...preview,
  ...(firmware && { firmware: { ...firmware } }),
  ...(device && { device: { ...device } }),
});
