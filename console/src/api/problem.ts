import type { FieldError, RefusalCode } from '../../../src/domain/refusals.ts';

/** Why a request came to nothing: a refusal of the service, or no answer at all. */
export class Problem extends Error {
  override readonly name = 'Problem';
  readonly code: RefusalCode | 'UNREACHABLE';
  /** 0 where nobody answered. */
  readonly status: number;
  readonly errors: readonly FieldError[];
  readonly retryAfterS: number | null;
  /** The whole body: the dry run of a critical command is a refusal, too. */
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
  new Problem({ code: 'UNREACHABLE', detail: 'The service does not answer.', status: 0 });
