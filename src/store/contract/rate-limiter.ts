import type { SizeReporter } from '../../domain/collection-sizes.ts';

/**
 * Kind of account that a limit applies to: a tenant, a key or user of a tenant, a user without one, a cookie session, a
 * client address without or with (`client`) a credential, or failed sign-ins of an address.
 */
export type PayerKind = 'tenant' | 'credential' | 'user' | 'session' | 'address' | 'client' | 'sign-in';

/**
 * Whether all requests of a payer are served by one node, which then grants the whole limit: the owner of the tenant, or
 * of the shard of a user without one.
 */
export const isChargedAtOwner = (kind: PayerKind): boolean =>
  kind === 'tenant' || kind === 'credential' || kind === 'user' || kind === 'session';

/**
 * Whether nodes that share no counters divide the limit. Requests from one address with credentials may be those of one
 * tenant, which one node serves: for them each node grants the whole limit.
 */
export const isDivided = (kind: PayerKind): boolean => !isChargedAtOwner(kind) && kind !== 'client';

/** All limits are per minute. */
export const RATE_WINDOW_MS = 60_000;

/** Remaining budget of a payer. */
export interface Allowance {
  /** True if the cost was within the limit and has been charged. */
  ok: boolean;
  remaining: number;
  /** Milliseconds until the window ends. */
  resetMs: number;
}

/**
 * Fixed-window rate limiter. A payer's window opens with its first charge and lasts a minute; a rejected request is not
 * charged. The limit is passed with each call, so a changed limit applies from the next call on.
 */
export interface RateLimiter extends SizeReporter {
  /** Charges all of `cost` or nothing. */
  take(kind: PayerKind, id: string, limit: number, cost?: number): Allowance;
  /** Charges nothing; `ok` if the budget is not exhausted. */
  peek(kind: PayerKind, id: string, limit: number): Allowance;
  close(): Promise<void>;
}
