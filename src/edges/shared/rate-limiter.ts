import type { Refusal } from '../../domain/refusals.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import type { Caller, Services } from '../../operations/operation.ts';
import { makeLivenessGuard } from '../../services/store-liveness.ts';
import { networkOf } from './client-address.ts';

/** What a request was charged. */
export interface Charge {
  /** `RateLimit-Policy` and `RateLimit`, names and values in turn; empty where nothing limits. */
  headers: readonly string[];
  /** Why it goes no further; null: it may. */
  refusal: Refusal | null;
}

/** Requests a minute; 0 is no limit. */
export interface FixedRates {
  /** Without authentication, per client address. */
  anonymous: number;
  /** Of a person's cookie session, per user. */
  session: number;
  /** That fail, per client address. */
  signIns: number;
}

/** Contract §2. */
export const fixedRates: FixedRates = { anonymous: 600, session: 600, signIns: 60 };

/** Charges every HTTP request (contract §2, "Rate"); one and the same for all edges of a process. */
export interface RateLimiter {
  /** A request that names nobody. */
  chargeAnonymous(address: string, cost?: number): Charge;
  /** One of whom the identity check knows. A promise only where the tenant is not in memory. */
  chargeCaller(caller: Caller, address: string, cost?: number): Charge | Promise<Charge>;
  /** Before a credential is looked at that nobody has seen: the refusal of an address that failed far too often. */
  signInRefusal(address: string): Refusal | null;
  /** Counts a failed sign-in; its refusal where the address had too many. */
  recordFailedSignIn(address: string): Refusal | null;
  /** What a failed sign-in's answer carries. */
  signInRateHeaders(address: string): readonly string[];
}

/** Failures are answered 429 beyond the limit; beyond this many times the limit nobody looks at them any more. */
const HARD_LIMIT_FACTOR = 10;

const NOT_LIMITED: Charge = { headers: [], refusal: null };

export function makeRateLimiter(
  services: Pick<Services, 'actors' | 'rates' | 'settings'> & { store: Pick<Services['store'], 'ping'> },
  fixed: FixedRates = fixedRates,
): RateLimiter {
  const { actors, rates, settings, store } = services;
  const patiently = makeLivenessGuard((timeoutMs) => store.ping(timeoutMs));
  const unseen = fixed.signIns * HARD_LIMIT_FACTOR;

  /** A tier that is configured no more has the limit of the default one. */
  function limitOf(tier: string): number {
    const { rateLimits, defaultTier } = settings;
    return (Object.hasOwn(rateLimits, tier) ? rateLimits[tier] : rateLimits[defaultTier]) ?? 0;
  }

  function charge(kind: 'tenant' | 'user' | 'session' | 'address', id: string, limit: number, cost: number): Charge {
    if (limit === 0) return NOT_LIMITED;
    const { ok, remaining, resetMs } = rates.take(kind, id, limit, cost);
    const headers = headersOf(kind, limit, remaining, resetMs);
    return { headers, refusal: ok ? null : rateLimitRefusal(`At most ${limit} requests a minute`, resetMs) };
  }

  const stranger: RateLimiter['chargeAnonymous'] = (address, cost = 1) =>
    charge('address', networkOf(address), fixed.anonymous, cost);

  return {
    chargeAnonymous: stranger,
    chargeCaller(caller, address, cost = 1) {
      const { user, tenantId, cookie } = caller;
      if (user === null) return stranger(address, cost);
      if (cookie) return charge('session', user.id, fixed.session, cost);
      if (tenantId === null) return charge('user', user.id, limitOf(settings.defaultTier), cost);
      const ref = { kind: 'tenant', id: tenantId } as const;
      const of = (tenant: { snapshot: { context: TenantContext } } | null | undefined) =>
        charge('tenant', tenantId, limitOf(tenant?.snapshot.context.tier ?? settings.defaultTier), cost);
      const live = actors.peek<TenantContext>(ref);
      return live === undefined ? patiently(actors.read<TenantContext>(ref)).then(of) : of(live);
    },
    signInRefusal(address) {
      if (unseen === 0) return null;
      const { ok, resetMs } = rates.peek('sign-in', networkOf(address), unseen);
      return ok ? null : failedSignInRefusal(resetMs);
    },
    recordFailedSignIn(address) {
      if (unseen === 0) return null;
      const { ok, remaining, resetMs } = rates.take('sign-in', networkOf(address), unseen);
      return ok && unseen - remaining <= fixed.signIns ? null : failedSignInRefusal(resetMs);
    },
    signInRateHeaders(address) {
      if (unseen === 0) return [];
      const { remaining, resetMs } = rates.peek('sign-in', networkOf(address), unseen);
      return headersOf('sign-in', fixed.signIns, Math.max(0, fixed.signIns - (unseen - remaining)), resetMs);
    },
  };
}

const seconds = (milliseconds: number): number => Math.max(1, Math.ceil(milliseconds / 1000));

const rateLimitRefusal = (what: string, resetMs: number): Refusal => ({
  code: 'RATE_LIMIT_EXCEEDED',
  detail: `${what}; the next after ${seconds(resetMs)} s.`,
  retryAfterS: seconds(resetMs),
});

const failedSignInRefusal = (resetMs: number): Refusal =>
  rateLimitRefusal('Too many failed sign-ins from this address', resetMs);

/** draft-ietf-httpapi-ratelimit-headers: lists of strings with parameters (RFC 9651); `t` and `w` in seconds. */
const headersOf = (policy: string, limit: number, remaining: number, resetMs: number): readonly string[] => [
  'RateLimit-Policy',
  `"${policy}";q=${limit};w=60`,
  'RateLimit',
  `"${policy}";r=${remaining};t=${seconds(resetMs)}`,
];
