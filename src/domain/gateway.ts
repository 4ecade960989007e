import { isRestricted } from './capability-registry.ts';
import { DEFAULT_TIMEOUT_S, DEFAULT_TTL_S, MAX_CRITICAL_TTL_S, MAX_TIMEOUT_S, MAX_TTL_S } from './command.ts';
import type { Capability, Manifest, SafetyClass } from './manifest.ts';
import { checkParams } from './param-schema.ts';
import { isPerson, type SafetyPolicy } from './policy.ts';
import { done, type FieldError, type Outcome, type Refusal, type RefusalCode, refuse } from './refusals.ts';
import type { JsonObject, Milliseconds, Principal } from './values.ts';

/** All that the gateway judges a command by. */
export interface GatewayFacts {
  tenant: { suspended: boolean };
  flags: { maintenance_mode: boolean; commands_disabled: boolean };
  /** Null where the tenant has no such device. */
  device: { revoked: boolean } | null;
  manifest: Pick<Manifest, 'capabilities' | 'version'> | null;
  action: string;
  params: JsonObject;
  /** What records say against the parameters, which no schema can know. */
  objections?: readonly FieldError[];
  /** What the service adds to the parameters in what the device receives: what they name, and may not say themselves. */
  supplement?: JsonObject;
  dryRun: boolean;
  /** True when the command comes back from its confirmation, dry runs included. */
  confirmed: boolean;
}

export type Verdict =
  | { kind: 'allowed'; capability: Capability }
  | { kind: 'confirmation'; capability: Capability; reason: string }
  | { kind: 'refused'; refusal: Refusal };

const FLAG_RETRY_S = 30;

/**
 * The safety gateway, in the contract's order (§5). The tenant's policy refuses nobody who asks: who may confirm is
 * `mayConfirm`. A dry run is never refused for the action's class.
 */
export function judge(facts: GatewayFacts): Verdict {
  const { tenant, flags, device, manifest, action, params } = facts;
  if (tenant.suspended) return refused('TENANT_SUSPENDED', 'The tenant is suspended.');
  if (flags.maintenance_mode) return refused('MAINTENANCE', 'The service is under maintenance.', later);
  if (flags.commands_disabled) return refused('COMMANDS_DISABLED', 'Commands are disabled for now.', later);
  if (device === null) return refused('NOT_FOUND', 'There is no such device.');
  if (device.revoked) return refused('DEVICE_REVOKED', 'The device is revoked.');
  if (manifest === null) return refused('MANIFEST_NOT_FOUND', 'The device has no capability manifest.');
  if (isRestricted(action)) return refused('RESTRICTED_ACTION', `'${action}' is internal to the protocol.`);
  const capability = manifest.capabilities.find((one) => one.action === action);
  if (capability === undefined) return refused('ACTION_NOT_IN_MANIFEST', `The device does not offer '${action}'.`);
  const errors = [...checkParams(capability.paramSchema, params), ...(facts.objections ?? [])];
  if (errors.length > 0) return refused('PARAMS_INVALID', `The parameters of '${action}' are not valid.`, { errors });
  return judgeClass(capability, facts);
}

function judgeClass(capability: Capability, { dryRun, confirmed }: GatewayFacts): Verdict {
  if (dryRun && !confirmed) return { kind: 'confirmation', capability, reason: 'A dry run was asked for.' };
  switch (capability.safetyClass) {
    case 'NORMAL':
      return { kind: 'allowed', capability };
    case 'CRITICAL':
      if (confirmed) return { kind: 'allowed', capability };
      return { kind: 'confirmation', capability, reason: `'${capability.action}' is critical and needs confirmation.` };
    case 'RESTRICTED':
      return refused('RESTRICTED_ACTION', `'${capability.action}' is restricted by the device's manifest.`);
  }
}

const later = { retryAfterS: FLAG_RETRY_S };

const refused = (code: RefusalCode, detail: string, more: Partial<Refusal> = {}): Verdict => ({
  kind: 'refused',
  refusal: { code, detail, ...more },
});

export interface DispatchLimits {
  ttlMs: Milliseconds;
  timeoutMs: Milliseconds;
}

/**
 * How long a command may wait to be written, and how long its device may take. What is out of range is refused, the
 * lower cap of a CRITICAL one too: a caller who asked for an hour is not served by a silent five minutes.
 */
export function dispatchLimits(
  safetyClass: SafetyClass,
  ttl_s: number = DEFAULT_TTL_S,
  timeout_s: number = DEFAULT_TIMEOUT_S,
): Outcome<DispatchLimits> {
  const longest = safetyClass === 'NORMAL' ? MAX_TTL_S : MAX_CRITICAL_TTL_S;
  const errors = [
    ...(within(ttl_s, longest) ? [] : [{ path: 'ttl_s', message: `must be 1 to ${longest}` }]),
    ...(within(timeout_s, MAX_TIMEOUT_S) ? [] : [{ path: 'timeout_s', message: `must be 1 to ${MAX_TIMEOUT_S}` }]),
  ];
  if (errors.length > 0) return refuse('VALIDATION_FAILED', 'A time limit is out of range.', { errors });
  return done({ ttlMs: ttl_s * 1_000, timeoutMs: timeout_s * 1_000 });
}

const within = (seconds: number, longest: number) => Number.isInteger(seconds) && seconds >= 1 && seconds <= longest;

/** What a confirmer brings: the token of the dry run (or a wrong one), or nothing but identity in the inbox. */
export type ConfirmClaim = { holdsToken: boolean } | { inbox: true };

/**
 * Whether `confirmer` may confirm what `asker` asked for. Role and scope are looked at before. Principals are users: a
 * key, its creator and all their tokens are one.
 */
export function mayConfirm(
  policy: Pick<SafetyPolicy, 'confirm_by'>,
  asker: Principal,
  confirmer: Principal,
  claim: ConfirmClaim,
): Outcome<true> {
  if (confirmer.kind !== 'user') return refuse('CONFIRMATION_FAILED', 'Only a user can confirm.');
  if ('holdsToken' in claim && !claim.holdsToken) {
    return refuse('CONFIRMATION_FAILED', 'The token is not valid for this command.');
  }
  switch (policy.confirm_by) {
    case 'requester':
      return done(true);
    case 'another_principal':
      if (asker.kind !== 'user' || asker.id !== confirmer.id) return done(true);
      return refuse('CONFIRMATION_FAILED', 'The policy wants another principal than the one who asked.');
    case 'person':
      if (isPerson(confirmer)) return done(true);
      return refuse('CONFIRMATION_FAILED', 'The policy wants a person to confirm.');
  }
}
