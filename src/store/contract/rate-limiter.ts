import type { SizeReporter } from '../../domain/collection-sizes.ts';
/** Who takes: a tenant, a user, a person's cookie session, a client address, or the failed sign-ins of one. */
export type PayerKind = 'tenant' | 'user' | 'session' | 'address' | 'sign-in';

/** Every limit is one of a minute. */
export const RATE_WINDOW_MS = 60_000;

/** What a payer has left. */
export interface Allowance {
  /** Whether what was asked for was there, and is taken. */
  ok: boolean;
  remaining: number;
  /** Milliseconds until the whole limit is there again. */
  resetMs: number;
}

/**
 * Counts what payers take. A payer's window opens with the first thing it takes and lasts a minute; what is refused is not
 * counted. The limit comes with each question, so that another one holds from the next question on.
 */
export interface RateLimiter extends SizeReporter {
  /** Takes all of `cost` or nothing. */
  take(kind: PayerKind, id: string, limit: number, cost?: number): Allowance;
  /** Takes nothing; `ok` where something is left. */
  peek(kind: PayerKind, id: string, limit: number): Allowance;
  close(): Promise<void>;
}
