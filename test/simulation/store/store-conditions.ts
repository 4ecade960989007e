/** How the database and the way to it behave at this moment; the fault injector changes it. Milliseconds and probabilities. */
export interface StoreConditions {
  /** The longest that a statement takes on its way there, and its answer back. */
  latency: number;
  /** That a call finds the database unreachable. */
  away: number;
  /** That the connection breaks while a writing statement is under way: before its effect or after it. */
  broken: number;
  /** That a writing statement stalls, and for how long at most: a full disk queue, a lock that another session holds. */
  stall: number;
  stallMs: number;
  /** Virtual time until which nothing is reachable. */
  blackoutUntil: number;
  /** Virtual time until which writes wait while reads go on. */
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
