import { isRestricted, similarAction } from './capability-registry.ts';
import { DEFAULT_TIMEOUT_S, DEFAULT_TTL_S, MAX_CRITICAL_TTL_S, MAX_TIMEOUT_S, MAX_TTL_S } from './command.ts';
import type { Capability, Manifest } from './manifest.ts';
import { checkParams } from './param-schema.ts';
import { type Confirmer, DEFAULT_AGENT_CONFIRM_BY, isAgent, isPerson } from './policy.ts';
import { done, type FieldError, type Outcome, type Refusal, type RefusalCode, refuse } from './refusals.ts';
import type { JsonObject, Milliseconds, Principal } from './values.ts';

/** The facts that the gateway judges a command by. */
export interface GatewayFacts {
  tenant: { suspended: boolean };
  flags: { maintenance_mode: boolean; commands_disabled: boolean };
  /** Null if the tenant has no such device. `reportsFirmware`: a `hello` of the device has named a version. */
  device: { revoked: boolean; reportsFirmware?: boolean } | null;
  manifest: Pick<Manifest, 'capabilities' | 'version'> | null;
  action: string;
  params: JsonObject;
  /** Errors in the parameters that depend on stored records, which a schema cannot check. */
  objections?: readonly FieldError[];
  /**
   * Parameters that the service adds to the ones sent to the device and no request may set, such as a firmware's URL.
   */
  supplement?: JsonObject;
  dryRun: boolean;
  /** True after the confirmation, also for a dry run. */
  confirmed: boolean;
}

export type Verdict =
  | { kind: 'allowed'; capability: Capability }
  | { kind: 'confirmation'; capability: Capability; reason: string }
  | { kind: 'refused'; refusal: Refusal };

const FLAG_RETRY_S = 30;

const WITHOUT_MANIFEST =
  'The device has no capability manifest. An admin can add one with POST /v1/devices/{deviceId}/manifest.';

/**
 * The safety gateway: checks in the contract's order (§5). The tenant's policy does not limit who may request a
 * command, only who may confirm it (`mayConfirm`). A dry run is never refused because of the action's class.
 */
export function judge(facts: GatewayFacts): Verdict {
  const { tenant, flags, device, manifest, action, params } = facts;
  if (tenant.suspended) return refused('TENANT_SUSPENDED', 'The tenant is suspended.');
  if (flags.maintenance_mode) return refused('MAINTENANCE', 'The service is under maintenance.', later);
  if (flags.commands_disabled) return refused('COMMANDS_DISABLED', 'Commands are disabled for now.', later);
  if (device === null) return refused('NOT_FOUND', 'Device not found.');
  if (device.revoked) return refused('DEVICE_REVOKED', 'The device is revoked.');
  if (manifest === null) return refused('MANIFEST_NOT_FOUND', WITHOUT_MANIFEST);
  if (isRestricted(action)) return refused('RESTRICTED_ACTION', `'${action}' is internal to the protocol.`);
  const capability = manifest.capabilities.find((one) => one.action === action);
  if (capability === undefined) return refused('ACTION_NOT_IN_MANIFEST', `The device does not offer '${action}'.`);
  const errors = [...checkParams(capability.paramSchema, params), ...(facts.objections ?? [])];
  if (errors.length > 0) return refused('PARAMS_INVALID', `The parameters of '${action}' are not valid.`, { errors });
  return judgeClass(capability, facts);
}

function judgeClass(capability: Capability, { dryRun, confirmed }: GatewayFacts): Verdict {
  if (dryRun && !confirmed) return { kind: 'confirmation', capability, reason: 'A dry run was requested.' };
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
 * How long a command may wait to be written, and how long its device may take. Values out of range are refused, not
 * clamped, including the lower limit of CRITICAL commands: a silent change from an hour to five minutes would mislead.
 */
export function dispatchLimits(
  capability: Pick<Capability, 'action' | 'safetyClass' | 'timeout_s'>,
  ttl_s: number = DEFAULT_TTL_S,
  timeout_s: number = defaultTimeoutS(capability.action, capability),
): Outcome<DispatchLimits> {
  const longest = capability.safetyClass === 'NORMAL' ? MAX_TTL_S : MAX_CRITICAL_TTL_S;
  const errors = [
    ...(within(ttl_s, longest) ? [] : [{ path: 'ttl_s', message: `must be 1 to ${longest}` }]),
    ...(within(timeout_s, MAX_TIMEOUT_S) ? [] : [{ path: 'timeout_s', message: `must be 1 to ${MAX_TIMEOUT_S}` }]),
  ];
  if (errors.length > 0) return refuse('VALIDATION_FAILED', 'A time limit is out of range.', { errors });
  return done({ ttlMs: ttl_s * 1_000, timeoutMs: timeout_s * 1_000 });
}

/** The `timeout_s` of a command that names none: by its manifest, else by the registry's action of this name. */
export const defaultTimeoutS = (action: string, capability: Pick<Capability, 'timeout_s'> | undefined): number =>
  capability?.timeout_s ?? similarAction(action)?.timeout_s ?? DEFAULT_TIMEOUT_S;

const within = (seconds: number, longest: number) => Number.isInteger(seconds) && seconds >= 1 && seconds <= longest;

/**
 * The basis of a confirmation: the token of the dry run (right or wrong), or only the identity, from the inbox.
 * `agentKey`: requester or confirmer used an API key that was presented at `/mcp`. `normalDryRun`: a dry run of a NORMAL
 * action, which an agent could send at once.
 */
export type ConfirmClaim = ({ holdsToken: boolean } | { inbox: true }) & { agentKey?: boolean; normalDryRun?: boolean };

/** A policy, or the rules of several. */
interface ConfirmerRules {
  confirm_by: Confirmer | readonly Confirmer[];
  agent_confirm_by?: Confirmer | readonly Confirmer[];
}

/**
 * Whether `confirmer` may confirm the command of `requester`: by every rule in `confirm_by`, and if one of them is an
 * agent by every rule in `agent_confirm_by` as well. Role and scope are checked before. Principals are users: a key, its
 * creator and all their tokens are the same principal.
 */
export function mayConfirm(
  { confirm_by, agent_confirm_by = DEFAULT_AGENT_CONFIRM_BY }: ConfirmerRules,
  requester: Principal,
  confirmer: Principal,
  claim: ConfirmClaim,
): Outcome<true> {
  if (confirmer.kind !== 'user') return refuse('CONFIRMATION_FAILED', 'Only a user can confirm.');
  if ('holdsToken' in claim && !claim.holdsToken) {
    return refuse('CONFIRMATION_FAILED', 'The token is not valid for this command.');
  }
  for (const rule of [confirm_by].flat()) {
    const needed = confirmerDetail(rule, requester, confirmer);
    if (needed !== null) return refuse('CONFIRMATION_FAILED', `The policy requires confirmation by ${needed}.`);
  }
  const byAgent = claim.agentKey === true || isAgent(requester) || isAgent(confirmer);
  if (!byAgent || claim.normalDryRun === true) return done(true);
  for (const rule of [agent_confirm_by].flat()) {
    const needed = confirmerDetail(rule, requester, confirmer);
    if (needed === null) continue;
    const detail = `The policy for agents requires confirmation by ${needed}.`;
    return refuse('CONFIRMATION_FAILED', isAgentToken(confirmer) ? `${detail} ${AGENT_TOKEN}` : detail);
  }
  return done(true);
}

const AGENT_TOKEN =
  'This token counts as an agent’s: it or its client was used at /mcp, or a program requested it for itself.';

/** True outside of `/mcp`, where the user does not see that the token is an agent's. */
const isAgentToken = (confirmer: Principal): boolean => confirmer.via !== 'mcp' && isAgent(confirmer);

/** Who is required where this confirmer is not enough; otherwise null. */
function confirmerDetail(rule: Confirmer, requester: Principal, confirmer: Principal): string | null {
  switch (rule) {
    case 'requester':
      return null;
    case 'another_principal':
      return requester.kind !== 'user' || requester.id !== confirmer.id ? null : 'another user than the requester';
    case 'person':
      return isPerson(confirmer) ? null : 'a person';
  }
}
