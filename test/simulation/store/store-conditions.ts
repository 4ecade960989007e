/** Current behaviour of the database and its network; changed by the fault injector. Milliseconds and probabilities. */
export interface StoreConditions {
  /** Maximum latency of a statement, and of its response. */
  latency: number;
  /** Probability that the database is unreachable for a call. */
  away: number;
  /** Probability that the connection is lost during a writing statement: before its effect or after it. */
  broken: number;
  /**
   * Probability that a writing statement stalls, and for how long at most, as with a saturated disk or a lock of
   * another session.
   */
  stall: number;
  stallMs: number;
  /** Virtual time until which the database is unreachable. */
  blackoutUntil: number;
  /** Virtual time until which writes wait while reads continue. */
  writesStallUntil: number;
}

export const normalConditions = (): StoreConditions => ({
  latency: 2,
  away: 0,
  broken: 0,
  stall: 0,
  stallMs: 0,
  blackoutUntil: 0,
  writesStallUntil: 0,
});
