import { describe, expect, it } from 'vitest';
import { automaticManifest } from '../../src/domain/capability-registry.ts';
import { dispatchLimits, type GatewayFacts, judge, mayConfirm } from '../../src/domain/gateway.ts';
import type { Capability, SafetyClass } from '../../src/domain/manifest.ts';
import { type Principal, SYSTEM } from '../../src/domain/values.ts';

const lock = automaticManifest({ deviceId: 'd', tenantId: 't', deviceType: 'lock' });
const custom = (safetyClass: SafetyClass): Capability => ({
  id: 1,
  action: 'dance',
  description: '',
  safetyClass,
  paramSchema: { type: 'object', properties: { speed: { type: 'number' } } },
  supportsDryRun: false,
});
const facts: GatewayFacts = {
  tenant: { suspended: false },
  flags: { maintenance_mode: false, commands_disabled: false },
  device: { revoked: false },
  manifest: lock,
  action: 'lock',
  params: {},
  dryRun: false,
  confirmed: false,
};
const code = (changes: Partial<GatewayFacts>) => {
  const verdict = judge({ ...facts, ...changes });
  return verdict.kind === 'refused' ? verdict.refusal.code : verdict.kind;
};

describe('the safety gateway', () => {
  it('allows a normal action and returns the capability it was checked against', () => {
    const verdict = judge(facts);
    expect(verdict).toEqual({ kind: 'allowed', capability: lock?.capabilities[0] });
  });

  it('requires a confirmation for a critical action, and allows it with one', () => {
    expect(judge({ ...facts, action: 'unlock' })).toEqual({
      kind: 'confirmation',
      capability: lock?.capabilities.find(({ action }) => action === 'unlock'),
      reason: "'unlock' is critical and needs confirmation.",
    });
    expect(code({ action: 'unlock', confirmed: true })).toBe('allowed');
  });

  // Each row adds one violation to those of the rows below it: the response reports the first violation in the
  // contract's order.
  const wrong: [string, string, Partial<GatewayFacts>][] = [
    ['tenant', 'TENANT_SUSPENDED', { tenant: { suspended: true } }],
    ['maintenance', 'MAINTENANCE', { flags: { maintenance_mode: true, commands_disabled: true } }],
    ['commands flag', 'COMMANDS_DISABLED', { flags: { maintenance_mode: false, commands_disabled: true } }],
    ['device', 'NOT_FOUND', { device: null }],
    ['revocation', 'DEVICE_REVOKED', { device: { revoked: true } }],
    ['manifest', 'MANIFEST_NOT_FOUND', { manifest: null }],
    ['registry', 'RESTRICTED_ACTION', { action: 'rotate_key' }],
    ['allowlist', 'ACTION_NOT_IN_MANIFEST', { action: 'set_brightness' }],
    ['params', 'PARAMS_INVALID', { action: 'unlock', params: { door: 1 } }],
    ['class', 'confirmation', { action: 'unlock' }],
  ];

  it.each(wrong.map(([step, expected], index) => [step, expected, index] as const))(
    'checks the %s before all later rules (%s)',
    (_step, expected, index) => {
      const all = wrong.slice(index).reverse();
      expect(code(Object.assign({}, ...all.map(([, , change]) => change)))).toBe(expected);
      expect(code(wrong[index]?.[2] ?? {})).toBe(expected);
    },
  );

  it('reports when to retry under a flag, a sentence, and the invalid parameter', () => {
    const refusal = (changes: Partial<GatewayFacts>) => {
      const verdict = judge({ ...facts, ...changes });
      return verdict.kind === 'refused' ? verdict.refusal : undefined;
    };
    const details = wrong.slice(0, -1).map(([, , change]) => refusal(change)?.detail ?? '');
    expect(details).toEqual([
      'The tenant is suspended.',
      'The service is under maintenance.',
      'Commands are disabled for now.',
      'Device not found.',
      'The device is revoked.',
      'The device has no capability manifest. An admin can add one with POST /v1/devices/{deviceId}/manifest.',
      "'rotate_key' is internal to the protocol.",
      "The device does not offer 'set_brightness'.",
      "The parameters of 'unlock' are not valid.",
    ]);
    expect(refusal(wrong[1]?.[2] ?? {})?.retryAfterS).toBe(30);
    expect(refusal(wrong[2]?.[2] ?? {})?.retryAfterS).toBe(30);
    expect(refusal({ params: { door: 1 } })?.errors).toEqual([{ path: 'params.door', message: 'unknown field' }]);
  });

  it('never allows a restricted action of the registry, with any manifest, dry run or confirmation', () => {
    const manifest = { version: 1, capabilities: [{ ...custom('NORMAL'), action: 'revoke' }] };
    for (const dryRun of [false, true]) {
      for (const confirmed of [false, true]) {
        expect(code({ manifest, action: 'revoke', dryRun, confirmed })).toBe('RESTRICTED_ACTION');
        expect(code({ manifest: { version: 1, capabilities: [] }, action: 'revoke', dryRun, confirmed })).toBe(
          'RESTRICTED_ACTION',
        );
      }
    }
  });

  it('checks all rules again when a confirmed command returns', () => {
    for (const [, expected, change] of wrong.slice(0, -1)) expect(code({ ...change, confirmed: true })).toBe(expected);
  });

  it.each<[SafetyClass, boolean, boolean, string]>([
    ['NORMAL', false, false, 'allowed'],
    ['NORMAL', false, true, 'allowed'],
    ['NORMAL', true, false, 'confirmation'],
    ['NORMAL', true, true, 'allowed'],
    ['CRITICAL', false, false, 'confirmation'],
    ['CRITICAL', false, true, 'allowed'],
    ['CRITICAL', true, false, 'confirmation'],
    ['CRITICAL', true, true, 'allowed'],
    ['RESTRICTED', false, false, 'RESTRICTED_ACTION'],
    ['RESTRICTED', false, true, 'RESTRICTED_ACTION'],
    ['RESTRICTED', true, false, 'confirmation'],
    ['RESTRICTED', true, true, 'RESTRICTED_ACTION'],
  ])('a %s capability, dry run %s, confirmed %s: %s', (safetyClass, dryRun, confirmed, expected) => {
    const manifest = { version: 1, capabilities: [custom(safetyClass)] };
    expect(code({ manifest, action: 'dance', params: { speed: 2 }, dryRun, confirmed })).toBe(expected);
  });

  it('explains why it waits for or refuses the class', () => {
    const manifest = { version: 1, capabilities: [custom('RESTRICTED')] };
    expect(judge({ ...facts, dryRun: true })).toMatchObject({ reason: 'A dry run was requested.' });
    expect(judge({ ...facts, manifest, action: 'dance' })).toMatchObject({
      refusal: { detail: "'dance' is restricted by the device's manifest." },
    });
  });
});

describe('the limits of a dispatch', () => {
  const normal = { action: 'turn_on', safetyClass: 'NORMAL' } as const;
  const critical = { action: 'unlock', safetyClass: 'CRITICAL' } as const;
  const paths = (outcome: ReturnType<typeof dispatchLimits>) =>
    outcome.ok ? [] : outcome.refusal.errors?.map(({ path, message }) => `${path} ${message}`);

  it('are 60 s for delivery and 30 s for execution by default', () => {
    expect(dispatchLimits(normal)).toEqual({ ok: true, value: { ttlMs: 60_000, timeoutMs: 30_000 } });
    expect(dispatchLimits(critical)).toEqual({ ok: true, value: { ttlMs: 60_000, timeoutMs: 30_000 } });
    expect(dispatchLimits(normal, 1, 3_600)).toEqual({ ok: true, value: { ttlMs: 1_000, timeoutMs: 3_600_000 } });
    expect(dispatchLimits(normal, 86_400, 1)).toEqual({ ok: true, value: { ttlMs: 86_400_000, timeoutMs: 1_000 } });
  });

  it('limit the wait of a critical command to 300 s', () => {
    expect(dispatchLimits(critical, 300).ok).toBe(true);
    expect(dispatchLimits(critical, 301)).toMatchObject({
      refusal: { code: 'VALIDATION_FAILED', detail: 'A time limit is out of range.' },
    });
    expect(paths(dispatchLimits(critical, 301))).toEqual(['ttl_s must be 1 to 300']);
    expect(dispatchLimits(normal, 301).ok).toBe(true);
    expect(dispatchLimits({ action: 'revoke', safetyClass: 'RESTRICTED' }, 301).ok).toBe(false);
  });

  it('give the execution the time of the manifest, or of the registry', () => {
    const timeoutMs = (action: string, timeout_s?: number) => {
      const limits = dispatchLimits({ ...normal, action, ...(timeout_s !== undefined && { timeout_s }) });
      return limits.ok && limits.value.timeoutMs;
    };
    expect(timeoutMs('update_firmware')).toBe(600_000);
    expect(timeoutMs('Update-Firmware')).toBe(600_000);
    expect(timeoutMs('update_firmware', 1_200)).toBe(1_200_000);
    expect(timeoutMs('dance', 45)).toBe(45_000);
  });

  it('are refused when out of range', () => {
    expect(paths(dispatchLimits(normal, 86_401))).toEqual(['ttl_s must be 1 to 86400']);
    expect(paths(dispatchLimits(normal, 0, 3_601))).toEqual([
      'ttl_s must be 1 to 86400',
      'timeout_s must be 1 to 3600',
    ]);
    expect(paths(dispatchLimits(normal, 60, 0))).toEqual(['timeout_s must be 1 to 3600']);
    for (const bad of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])
      expect(dispatchLimits(normal, bad).ok).toBe(false);
  });
});

describe('the principal that may confirm', () => {
  const ann: Principal = { kind: 'user', id: 'ann' };
  const annsKey: Principal = { kind: 'user', id: 'ann', key: 'abcdefgh' };
  const annInPerson: Principal = { kind: 'user', id: 'ann', person: true };
  const bob: Principal = { kind: 'user', id: 'bob' };
  const token = { holdsToken: true };
  const inbox = { inbox: true } as const;
  const may = (...args: Parameters<typeof mayConfirm>) => {
    const outcome = mayConfirm(...args);
    return outcome.ok ? outcome.value : outcome.refusal.detail;
  };

  it('is any principal, with the token or in the inbox, under requester', () => {
    for (const claim of [token, inbox]) {
      for (const confirmer of [ann, annsKey, bob])
        expect(may({ confirm_by: 'requester' }, ann, confirmer, claim)).toBe(true);
    }
  });

  it('is not the requester under another_principal, with a key or in person', () => {
    const policy = { confirm_by: 'another_principal' } as const;
    for (const claim of [token, inbox]) {
      for (const confirmer of [ann, annsKey, annInPerson]) {
        expect(may(policy, ann, confirmer, claim)).toBe(
          'The policy requires confirmation by another user than the requester.',
        );
        expect(may(policy, annsKey, confirmer, claim)).toMatch(/another user/);
      }
      expect(may(policy, ann, bob, claim)).toBe(true);
      expect(may(policy, { ...SYSTEM, id: 'bob' }, bob, claim)).toBe(true);
    }
  });

  it('is a person, including the requester, and never a key under person', () => {
    const policy = { confirm_by: 'person' } as const;
    for (const claim of [token, inbox]) {
      expect(may(policy, ann, annInPerson, claim)).toBe(true);
      expect(may(policy, bob, annInPerson, claim)).toBe(true);
      for (const confirmer of [ann, annsKey, { ...annsKey, person: true }, { ...ann, person: false }]) {
        expect(may(policy, bob, confirmer, claim)).toBe('The policy requires confirmation by a person.');
      }
    }
  });

  it('satisfies the policy for agents as well where an agent takes part', () => {
    const atMcp: Principal = { ...annsKey, via: 'mcp', person: false };
    const presented: Principal = { ...ann, via: 'rest', person: false };
    const program: Principal = { ...annsKey, via: 'rest', person: false };
    const forAgents = 'The policy for agents requires confirmation by a person.';
    const policy = { confirm_by: 'requester' } as const;
    for (const claim of [token, inbox]) {
      for (const agent of [atMcp, presented]) {
        expect(may(policy, agent, program, claim)).toBe(forAgents);
        const reason =
          agent === presented
            ? ' This token counts as an agent’s: it or its client was used at /mcp, or a program requested it for itself.'
            : '';
        expect(may(policy, ann, agent, claim)).toBe(`${forAgents}${reason}`);
        expect(may(policy, agent, annInPerson, claim)).toBe(true);
        expect(may({ ...policy, agent_confirm_by: 'requester' }, agent, agent, claim)).toBe(true);
        expect(may({ ...policy, agent_confirm_by: 'another_principal' }, agent, annInPerson, claim)).toMatch(/another/);
        expect(may({ confirm_by: 'person', agent_confirm_by: 'requester' }, agent, agent, claim)).toBe(
          'The policy requires confirmation by a person.',
        );
      }
      expect(may(policy, program, program, claim)).toBe(true);
      expect(may(policy, program, program, { ...claim, agentKey: true })).toBe(forAgents);
      expect(may(policy, atMcp, atMcp, { ...claim, normalDryRun: true })).toBe(true);
    }
  });

  it('is never a device, the service or a principal with a wrong token', () => {
    for (const confirm_by of ['requester', 'another_principal', 'person'] as const) {
      expect(may({ confirm_by }, ann, { kind: 'device', id: 'x', person: true }, token)).toBe(
        'Only a user can confirm.',
      );
      expect(may({ confirm_by }, ann, SYSTEM, inbox)).toBe('Only a user can confirm.');
      expect(may({ confirm_by }, bob, annInPerson, { holdsToken: false })).toBe(
        'The token is not valid for this command.',
      );
    }
    expect(mayConfirm({ confirm_by: 'person' }, ann, ann, token)).toMatchObject({
      refusal: { code: 'CONFIRMATION_FAILED' },
    });
    expect(mayConfirm({ confirm_by: 'requester' }, ann, SYSTEM, token)).toMatchObject({
      refusal: { code: 'CONFIRMATION_FAILED' },
    });
    expect(mayConfirm({ confirm_by: 'requester' }, ann, bob, { holdsToken: false })).toMatchObject({
      refusal: { code: 'CONFIRMATION_FAILED' },
    });
    expect(mayConfirm({ confirm_by: 'another_principal' }, ann, ann, token)).toMatchObject({
      refusal: { code: 'CONFIRMATION_FAILED' },
    });
  });
});
