import type { EpochMs, Principal } from './values.ts';

export const confirmers = ['requester', 'another_principal', 'person'] as const;
export type Confirmer = (typeof confirmers)[number];

/** In seconds (contract §5). */
export const MIN_CONFIRM_TTL_S = 60;
export const MAX_CONFIRM_TTL_S = 86_400;

/** The tenant's safety policy (contract §5). */
export interface SafetyPolicy {
  confirm_by: Confirmer;
  /** Who may confirm what an agent takes part in, in addition to `confirm_by`; absent: `DEFAULT_AGENT_CONFIRM_BY`. */
  agent_confirm_by?: Confirmer;
  /** Seconds within which a confirmation is accepted: 60–86,400. */
  confirm_ttl_s: number;
}

export const DEFAULT_AGENT_CONFIRM_BY: Confirmer = 'person';

export const DEFAULT_POLICY: SafetyPolicy = { confirm_by: 'requester', confirm_ttl_s: 300 };

/**
 * Requirements of a confirmation: it has to satisfy every rule in `confirm_by`, and if an agent takes part every rule in
 * `agent_confirm_by`.
 */
export interface ConfirmationRules {
  confirm_by: readonly Confirmer[];
  agent_confirm_by: readonly Confirmer[];
  confirm_ttl_s: number;
}

/** Rules that were in force until a policy that was looser in something replaced them. */
export interface EarlierRules extends ConfirmationRules {
  until: EpochMs;
}

/** Above this number the oldest are combined into one that is as strict as all of them. */
const MAX_EARLIER = 16;

/** Every confirmer that the second rule accepts is accepted by the first one too. */
const admits = (looser: Confirmer, stricter: Confirmer): boolean => looser === stricter || looser === 'requester';

const agentConfirmerOf = ({ agent_confirm_by = DEFAULT_AGENT_CONFIRM_BY }: SafetyPolicy): Confirmer => agent_confirm_by;

const rulesOf = (policy: SafetyPolicy): ConfirmationRules => ({
  confirm_by: [policy.confirm_by],
  agent_confirm_by: [agentConfirmerOf(policy)],
  confirm_ttl_s: policy.confirm_ttl_s,
});

const confirmerTexts: Readonly<Record<Confirmer, string>> = {
  requester: 'anyone with the role, including the requester',
  another_principal: 'another user than the requester',
  person: 'a person',
};

/** One sentence for each rule of a policy in which `after` is looser than `before`; none if it is at least as strict. */
export function looserRules(before: SafetyPolicy, after: SafetyPolicy): string[] {
  const sentences: string[] = [];
  if (!admits(before.confirm_by, after.confirm_by)) {
    const [from, to] = [confirmerTexts[before.confirm_by], confirmerTexts[after.confirm_by]];
    sentences.push(`Critical commands and changes can be confirmed by ${to} (before: only by ${from}).`);
  }
  const [agentsBefore, agentsAfter] = [agentConfirmerOf(before), agentConfirmerOf(after)];
  if (!admits(agentsBefore, agentsAfter)) {
    const [from, to] = [confirmerTexts[agentsBefore], confirmerTexts[agentsAfter]];
    sentences.push(`Requests and confirmations of agents can be confirmed by ${to} (before: only by ${from}).`);
  }
  if (after.confirm_ttl_s > before.confirm_ttl_s) {
    const [from, to] = [before.confirm_ttl_s, after.confirm_ttl_s];
    sentences.push(`A confirmation is accepted for ${to} seconds (before: ${from}).`);
  }
  return sentences;
}

/** The earlier rules after a change of the policy at `at`. A stricter policy leaves nothing to remember. */
export function rememberRules(
  earlier: readonly EarlierRules[],
  before: SafetyPolicy,
  after: SafetyPolicy,
  at: EpochMs,
): readonly EarlierRules[] {
  if (looserRules(before, after).length === 0) return earlier;
  const ended: EarlierRules = { ...rulesOf(before), until: at };
  const kept = [...earlier.filter((one) => !includes(ended, one)), ended];
  const [first, second, ...rest] = kept;
  if (kept.length <= MAX_EARLIER || first === undefined || second === undefined) return kept;
  return [{ ...combine(first, second), until: second.until }, ...rest];
}

/** Whether the first rules, which ended later, are at least as strict as the second ones. */
const includes = (later: ConfirmationRules, sooner: ConfirmationRules): boolean =>
  later.confirm_ttl_s <= sooner.confirm_ttl_s &&
  (['confirm_by', 'agent_confirm_by'] as const).every((name) =>
    sooner[name].every((rule) => later[name].some((one) => admits(rule, one))),
  );

/**
 * The rules for what has waited since `since`: those of the policy and all that were in force since then, because a
 * looser policy never applies to what already waits.
 */
export function rulesSince(policy: SafetyPolicy, earlier: readonly EarlierRules[], since: EpochMs): ConfirmationRules {
  return earlier.filter(({ until }) => until > since).reduce(combine, rulesOf(policy));
}

/** What was requested at this time or earlier does not wait any longer at `now`, by the rules of `rulesSince`. */
export const expiredUntil = (policy: SafetyPolicy, earlier: readonly EarlierRules[], now: EpochMs): EpochMs =>
  Math.max(
    now - policy.confirm_ttl_s * 1_000,
    ...earlier.map(({ until, confirm_ttl_s }) => Math.min(until - 1, now - confirm_ttl_s * 1_000)),
  );

const combine = (a: ConfirmationRules, b: ConfirmationRules): ConfirmationRules => ({
  confirm_by: [...new Set([...a.confirm_by, ...b.confirm_by])],
  agent_confirm_by: [...new Set([...a.agent_confirm_by, ...b.agent_confirm_by])],
  confirm_ttl_s: Math.min(a.confirm_ttl_s, b.confirm_ttl_s),
});

/** True for a cookie session or a user's token on any edge except `/mcp`; never for an API key (contract §5). */
export const isPerson = ({ kind, key, via, person }: Principal): boolean =>
  kind === 'user' && person === true && key === undefined && via !== 'mcp';

/**
 * True for every credential at `/mcp`, and on any edge for a token that counts as no person's, as one that was presented
 * at `/mcp`. An API key that was presented there is an agent's on any edge as well, which a principal does not show.
 */
export const isAgent = ({ kind, key, via, person }: Principal): boolean =>
  kind === 'user' && (via === 'mcp' || (key === undefined && person === false));
