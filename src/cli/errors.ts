// Errors that end a command; run.ts maps each to an exit code.

/** The body of a refusal as received: problem details (RFC 9457), which a proxy may have written. */
export interface ReceivedProblem {
  status: number;
  title: string;
  detail?: string;
  code?: string;
  request_id?: string;
  errors?: { path: string; message: string }[];
}

/** The service refused the request. */
export class RefusedError extends Error {
  override name = 'RefusedError';
  readonly problem: ReceivedProblem;
  constructor(problem: ReceivedProblem) {
    super(problem.detail ?? problem.title);
    this.problem = problem;
  }
}

/** The arguments, settings or local files are invalid. */
export class UsageError extends Error {
  override name = 'UsageError';
  /** Printed below the message, one a line. */
  readonly details: readonly string[];
  constructor(message: string, details: readonly string[] = []) {
    super(message);
    this.details = details;
  }
}

/** The service does not answer, or the connection was lost. */
export class UnreachableError extends Error {
  override name = 'UnreachableError';
}

/** The operation was attempted and failed. */
export class FailedError extends Error {
  override name = 'FailedError';
}

export const exitCodes = { refused: 1, usage: 2, unreachable: 3 } as const;
