// Why a command ends with something else than 0; run.ts turns each into its exit code.

/** What the service answers where it says no (RFC 9457). */
export interface Problem {
  status: number;
  title: string;
  detail?: string;
  code?: string;
  request_id?: string;
  errors?: { path: string; message: string }[];
}

/** The service said no. */
export class RefusedError extends Error {
  override name = 'Refused';
  readonly problem: Problem;
  constructor(problem: Problem) {
    super(problem.detail ?? problem.title);
    this.problem = problem;
  }
}

/** What was asked cannot be understood. */
export class UsageError extends Error {
  override name = 'Usage';
}

/** Nobody answers there. */
export class UnreachableError extends Error {
  override name = 'Unreachable';
}

/** It was tried, and it did not come out. */
export class FailedError extends Error {
  override name = 'Failed';
}

export const exitCodes = { refused: 1, usage: 2, unreachable: 3 } as const;
