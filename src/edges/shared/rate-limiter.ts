import { done, type Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import type { Caller, ChargeCost, Services } from '../../operations/operation.ts';
import type { StoreLiveness } from '../../services/store-liveness.ts';
import { networkOf } from './client-address.ts';

/** The result of charging a request against its rate limit. */
export interface Charge {
  /** `RateLimit-Policy` and `RateLimit`, names and values alternating; empty if no limit applies. */
  headers: readonly string[];
  /** Why the request is refused; null if it is admitted. */
  refusal: Refusal | null;
}

/** Requests a minute; 0 means unlimited. */
export interface FixedRates {
  /** Requests without authentication, per client address. */
  anonymous: number;
  /** Requests of cookie sessions, per user. */
  session: number;
  /** Failed sign-ins, per client address. */
  signIns: number;
}

/** Contract §2. */
export const fixedRates: FixedRates = { anonymous: 600, session: 600, signIns: 60 };

/** Rate limits of HTTP requests (contract §2, "Rate"); one instance for all edges of a process. */
export interface RequestRateLimiter {
  /** Charges a request without a credential. */
  chargeAnonymous(address: string, cost?: number): Charge;
  /**
   * Charges a request that a device may have signed, apart from other requests of the address. One node serves all devices
   * of a tenant, so nodes that share no counters do not divide this limit.
   */
  chargeSigned(address: string): Charge;
  /**
   * Charges an authenticated request. `paid`: what it was charged before. Returns a promise only if the tenant is not in
   * memory.
   */
  chargeCaller(caller: Caller, address: string, cost?: number, paid?: number): Charge | Promise<Charge>;
  /** To be called before an uncached credential is verified: refuses an address that failed far too often. */
  signInRefusal(address: string): Refusal | null;
  /** Counts a failed sign-in; returns a refusal if the address had too many. */
  recordFailedSignIn(address: string): Refusal | null;
  /** Rate-limit headers for the response to a failed sign-in. */
  signInRateHeaders(address: string): readonly string[];
}

/** Failures beyond the limit get 429; beyond this multiple of the limit, credentials are not verified at all. */
const HARD_LIMIT_FACTOR = 10;

const NOT_LIMITED: Charge = { headers: [], refusal: null };

/** In requests: what is to be charged, and what the same request was charged before. */
interface Cost {
  due: number;
  paid: number;
}

/** Who a limit is for, as a refusal names it. `client`: the address of requests with a credential. */
const payers = {
  tenant: 'of this tenant',
  credential: 'of this key or user',
  client: 'from this address',
  user: 'of this user',
  session: 'in browsers of this user',
  address: 'without a credential from this address',
} as const;

export function makeRequestRateLimiter(
  { actors, rates, settings }: Pick<Services, 'actors' | 'rates' | 'settings'>,
  liveness: StoreLiveness,
  fixed: FixedRates = fixedRates,
): RequestRateLimiter {
  const hardLimit = fixed.signIns * HARD_LIMIT_FACTOR;

  /** The limit of a tier. A tier that is no longer configured has the limit of the default tier. */
  function limitOf(tier: string): number {
    const { rateLimits, defaultTier } = settings;
    return (Object.hasOwn(rateLimits, tier) ? rateLimits[tier] : rateLimits[defaultTier]) ?? 0;
  }

  /** `counter` is the kind of the counter, where it is not that of the limit. */
  function charge(kind: keyof typeof payers, id: string, limit: number, { due, paid }: Cost, counter = kind): Charge {
    if (limit === 0) return NOT_LIMITED;
    const { ok, remaining, resetMs } = rates.take(counter, id, limit, due);
    const headers = headersOf(kind, limit, remaining, resetMs);
    if (ok) return { headers, refusal: null };
    if (due + paid > limit) return { headers, refusal: tooExpensive(due + paid, limit, payers[kind]) };
    const reason = `The limit of ${limit} requests per minute ${payers[kind]} is reached`;
    return { headers, refusal: rateLimitRefusal(reason, resetMs) };
  }

  /** The limit of the key or user, and if it is not reached that of the tenant. */
  function chargeMember({ principal, user }: Caller, tenantId: Uuid, tier: string, cost: Cost): Charge {
    const { credentialRateLimits } = settings;
    const limit = Object.hasOwn(credentialRateLimits, tier) ? (credentialRateLimits[tier] ?? 0) : 0;
    const credential = charge('credential', principal.key ?? `${user?.id}`, limit, cost);
    if (credential.refusal !== null) return credential;
    return joined(charge('tenant', tenantId, limitOf(tier), cost), credential);
  }

  /** The limits of a caller other than that of the address. A promise only if the tenant is not in memory. */
  function chargeAccount(caller: Caller, userId: Uuid, cost: Cost): Charge | Promise<Charge> {
    const { tenantId, cookie } = caller;
    if (cookie) return charge('session', userId, fixed.session, cost);
    if (tenantId === null) return charge('user', userId, limitOf(settings.defaultTier), cost);
    const ref = { kind: 'tenant', id: tenantId } as const;
    const of = (tenant: { snapshot: { context: TenantContext } } | null | undefined) =>
      chargeMember(caller, tenantId, tenant?.snapshot.context.fixed.tier ?? settings.defaultTier, cost);
    const live = actors.peek<TenantContext>(ref);
    return live === undefined ? liveness.guard(actors.read<TenantContext>(ref)).then(of) : of(live);
  }

  const chargeAnonymous: RequestRateLimiter['chargeAnonymous'] = (address, cost = 1) =>
    charge('address', networkOf(address), fixed.anonymous, { due: cost, paid: 0 });

  return {
    chargeAnonymous,
    chargeSigned: (address) =>
      charge('address', `signed:${networkOf(address)}`, fixed.anonymous, { due: 1, paid: 0 }, 'client'),
    chargeCaller(caller, address, due = 1, paid = 0) {
      const { user } = caller;
      if (user === null) return chargeAnonymous(address, due);
      const cost = { due, paid };
      const client = charge('client', networkOf(address), settings.addressRateLimit, cost);
      if (client.refusal !== null) return client;
      const account = chargeAccount(caller, user.id, cost);
      return account instanceof Promise ? account.then((one) => joined(one, client)) : joined(account, client);
    },
    signInRefusal(address) {
      if (hardLimit === 0) return null;
      const { ok, resetMs } = rates.peek('sign-in', networkOf(address), hardLimit);
      return ok ? null : failedSignInRefusal(resetMs);
    },
    recordFailedSignIn(address) {
      if (hardLimit === 0) return null;
      const { ok, remaining, resetMs } = rates.take('sign-in', networkOf(address), hardLimit);
      return ok && hardLimit - remaining <= fixed.signIns ? null : failedSignInRefusal(resetMs);
    },
    signInRateHeaders(address) {
      if (hardLimit === 0) return [];
      const { remaining, resetMs } = rates.peek('sign-in', networkOf(address), hardLimit);
      return headersOf('sign-in', fixed.signIns, Math.max(0, fixed.signIns - (hardLimit - remaining)), resetMs);
    },
  };
}

const seconds = (milliseconds: number): number => Math.max(1, Math.ceil(milliseconds / 1000));

const rateLimitRefusal = (reason: string, resetMs: number): Refusal => ({
  code: 'RATE_LIMIT_EXCEEDED',
  detail: `${reason}. Retry after ${seconds(resetMs)} s.`,
  retryAfterS: seconds(resetMs),
});

/** A limit lower than the cost refuses the request in any minute. */
const tooExpensive = (cost: number, limit: number, payer: string): Refusal => ({
  code: 'VALIDATION_FAILED',
  detail: `The request costs ${cost}, more than the limit of ${limit} requests per minute ${payer}. Request less at a time.`,
});

const failedSignInRefusal = (resetMs: number): Refusal =>
  rateLimitRefusal('Too many failed sign-ins from this address', resetMs);

/** Charges what a request costs in addition to the 1 that it was charged already. */
export class RequestCost {
  readonly #rateLimiter: Pick<RequestRateLimiter, 'chargeCaller'>;
  readonly #caller: Caller;
  readonly #address: string;
  /** Receives the rate-limit headers of a further charge. */
  readonly #charged: (headers: readonly string[]) => void;
  /** How much of what was charged is not used by a read yet. */
  #unused = 1;
  /** Requests that were charged. */
  #paid = 1;

  constructor(
    rateLimiter: Pick<RequestRateLimiter, 'chargeCaller'>,
    { caller, address }: { caller: Caller; address: string },
    charged: (headers: readonly string[]) => void,
  ) {
    this.#rateLimiter = rateLimiter;
    this.#caller = caller;
    this.#address = address;
    this.#charged = charged;
  }

  readonly charge: ChargeCost = async (cost) => {
    const covered = Math.min(cost, this.#unused);
    this.#unused -= covered;
    const due = cost - covered;
    if (due === 0) return done(null);
    const { headers, refusal } = await this.#rateLimiter.chargeCaller(this.#caller, this.#address, due, this.#paid);
    this.#charged(headers);
    if (refusal !== null) return { ok: false, refusal };
    this.#paid += due;
    return done(null);
  };
}

/** The refusal of the first, with the headers of both in lists. */
function joined(first: Charge, second: Charge): Charge {
  if (second.headers.length === 0) return first;
  if (first.headers.length === 0) return { ...first, headers: second.headers };
  const headers = first.headers.map((value, n) => (n % 2 === 0 ? value : `${value}, ${second.headers[n]}`));
  return { headers, refusal: first.refusal };
}

/** draft-ietf-httpapi-ratelimit-headers: lists of strings with parameters (RFC 9651); `t` and `w` in seconds. */
const headersOf = (policy: string, limit: number, remaining: number, resetMs: number): readonly string[] => [
  'RateLimit-Policy',
  `"${policy}";q=${limit};w=60`,
  'RateLimit',
  `"${policy}";r=${remaining};t=${seconds(resetMs)}`,
];
