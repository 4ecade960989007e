/**
 * Options of a test that computes or waits for about a second or more on a machine without other work: with much other
 * work it takes several times as long, and only a test that hangs is to be ended.
 */
export const slow = { timeout: 30_000 } as const;
