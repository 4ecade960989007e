import { describe, expect, it } from 'vitest';
import { toAdminView } from '../../src/machines/command-admin-view.ts';
import type { CommandContext } from '../../src/machines/command-types.ts';
import { changeFixed, changeLive } from '../../src/machines/decision.ts';
import { COMMAND, DEVICE, requestedCommand, T0, TENANT, uuid } from './samples.ts';

const time = (at: number) => new Date(at).toISOString();

const full: CommandContext = {
  fixed: {
    id: COMMAND,
    tenantId: TENANT,
    deviceId: DEVICE,
    action: 'unlock',
    params: { code: 4 },
    messageId: uuid(20),
    origin: {
      requestId: uuid(21),
      plan: { id: uuid(22), stepId: 'open', compensation: { action: 'lock', params: { hard: true } } },
    },
    requestedBy: { kind: 'user', id: uuid(10), via: 'mcp', key: 'abcd1234', requestId: uuid(21) },
    requestedAt: T0,
    safetyClass: 'CRITICAL',
    manifestVersion: 3,
    limits: { ttlMs: 60_000, timeoutMs: 30_000 },
    refusal: { code: 'DEVICE_REVOKED', detail: 'The device is revoked.' },
    confirmation: {
      tokenHash: 'the hash of a token',
      expiresAt: T0 + 300_000,
      reason: 'It is critical.',
      preview: {
        current: { locked: true },
        expected: { locked: false },
        changes: { locked: { from: true, to: false } },
      },
      asked: true,
    },
    confirmedBy: { kind: 'user', id: uuid(11) },
  },
  live: {
    status: 'timed_out',
    delivery: {
      dispatchedAt: T0 + 1_000,
      expiresAt: T0 + 61_000,
      firstWrittenAt: T0 + 2_000,
      sessionId: 'the id of a session',
      writes: 2,
      supplement: { url: 'https://cloud.example/a-signed-url' },
    },
    answer: {
      progress: 40,
      result: { ok: false },
      error: 'jammed',
      timedOutAt: T0 + 32_000,
      late: true,
      strayWords: 5,
    },
    verification: {
      status: 'mismatched',
      expected: { locked: false },
      withinMs: 10_000,
      observed: { locked: true },
      checkedAt: T0 + 40_000,
    },
  },
};

describe('the administrator’s view of a command', () => {
  it('shows everything except the hash of its token, its session and parameters for the device only', () => {
    expect(toAdminView(full)).toEqual({
      id: COMMAND,
      tenant_id: TENANT,
      device_id: DEVICE,
      action: 'unlock',
      params: { code: 4 },
      message_id: uuid(20),
      request_id: uuid(21),
      plan: { id: uuid(22), step_id: 'open', compensation: { action: 'lock', params: { hard: true } } },
      requested_by: { kind: 'user', id: uuid(10), via: 'mcp', key: 'abcd1234' },
      requested_at: time(T0),
      status: 'timed_out',
      safety_class: 'CRITICAL',
      manifest_version: 3,
      ttl_s: 60,
      timeout_s: 30,
      refusal: { code: 'DEVICE_REVOKED', detail: 'The device is revoked.' },
      confirmation: {
        expires_at: time(T0 + 300_000),
        reason: 'It is critical.',
        preview: full.fixed.confirmation?.preview,
        asked: true,
      },
      confirmed_by: { kind: 'user', id: uuid(11) },
      delivery: {
        dispatched_at: time(T0 + 1_000),
        expires_at: time(T0 + 61_000),
        first_written_at: time(T0 + 2_000),
        writes: 2,
      },
      answer: {
        progress: 40,
        result: { ok: false },
        error: 'jammed',
        timed_out_at: time(T0 + 32_000),
        late: true,
        late_acks: 5,
      },
      verification: {
        status: 'mismatched',
        expected: { locked: false },
        within_s: 10,
        observed: { locked: true },
        checked_at: time(T0 + 40_000),
      },
    });
  });

  it('has null for unknown values', () => {
    const shown = toAdminView(requestedCommand().context);
    expect(shown).toMatchObject({ plan: null, refusal: null, confirmation: null, confirmed_by: null });
    expect(shown).toMatchObject({ delivery: { first_written_at: null }, answer: { timed_out_at: null } });
    expect(
      toAdminView({
        ...changeFixed(full, { origin: { ...full.fixed.origin, plan: null } }),
        ...changeLive(full, { delivery: null }),
      }),
    ).toMatchObject({
      plan: null,
      delivery: null,
    });
  });

  it('shows a plan without a compensation', () => {
    const plan = { id: uuid(22), stepId: 'open', compensation: null };
    expect(toAdminView({ ...full, ...changeFixed(full, { origin: { requestId: uuid(21), plan } }) })).toMatchObject({
      plan: { id: uuid(22), step_id: 'open', compensation: null },
    });
  });
});
