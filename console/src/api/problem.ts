import type { FieldError, RefusalCode } from '../../../src/domain/refusals.ts';

/** A failed request: a refusal of the service, or no response. */
export class Problem extends Error {
  override readonly name = 'Problem';
  readonly code: RefusalCode | 'UNREACHABLE';
  /** HTTP status; 0 without a response. */
  readonly status: number;
  readonly errors: readonly FieldError[];
  readonly retryAfterS: number | null;
  /** The response body. The dry run of a critical command also arrives as a problem. */
  readonly body: unknown;

  constructor(from: {
    code: Problem['code'];
    detail: string;
    status: number;
    errors?: readonly FieldError[];
    retryAfterS?: number | null;
    body?: unknown;
  }) {
    super(from.detail);
    this.code = from.code;
    this.status = from.status;
    this.errors = from.errors ?? [];
    this.retryAfterS = from.retryAfterS ?? null;
    this.body = from.body ?? null;
  }
}

export const unreachableProblem = (): Problem =>
  new Problem({ code: 'UNREACHABLE', detail: 'The service does not respond.', status: 0 });
